"""The settings of receivers: one frozen value for each kind, told apart by `type`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    field_validator,
    model_validator,
)

from domain.errors import ConfigError
from domain.objective import Severity

__all__ = [
    "KINDS",
    "AlertmanagerSettings",
    "AppriseSettings",
    "CommonSettings",
    "MailSettings",
    "PagerDutySettings",
    "ReceiverSettings",
    "SlackSettings",
    "SnsSettings",
    "WebhookSettings",
    "kind_of",
]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:([a-z0-9-]+):\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?")
_ADDRESS = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,189}$"
_Address = Annotated[str, Field(pattern=_ADDRESS)]


class CommonSettings(BaseModel):
    """What all receivers have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=_NAME, description="What the delivery log calls it; keep it when the target moves."
    )
    severities: tuple[Severity, ...] = Field(
        default=(Severity.PAGE, Severity.TICKET), description="What this receiver is told."
    )
    timeout_s: float = Field(default=5.0, gt=0, le=60, description="Patience for one attempt (s).")
    give_up_after_s: float = Field(
        default=86_400.0, gt=0, description="An undelivered notification is given up then (s)."
    )
    alarm_after_s: float = Field(
        default=300.0,
        gt=0,
        description="The other receivers are told when one cannot be told for so long (s).",
    )
    title: str = Field(
        default="",
        description="A template for the title, subject or summary; empty: our own words.",
    )
    text: str = Field(
        default="", description="A template for the first paragraph; empty: our own words."
    )

    @field_validator("title", "text")
    @classmethod
    def _works(cls, template: str) -> str:
        if template:
            # why here: only who has a template pays for Jinja
            from alerts.receivers.proof import prove  # noqa: PLC0415

            try:
                prove(template, where="receiver")
            except ConfigError as error:
                raise ValueError(f"{error.problem}. {error.remedy}") from error
        return template

    @property
    def again_every_s(self) -> float | None:
        """How often what still fires must be repeated lest it be taken for over; None: never."""
        return None

    @property
    def closes(self) -> bool:
        """Whether something stays open there until its end is told."""
        return False


class WebhookSettings(CommonSettings):
    """One receiver that takes a POST with a JSON body."""

    type: Literal["webhook"] = Field(default="webhook", description="The kind of receiver.")
    url: SecretStr = Field(description="Where to POST; never printed, since URLs carry tokens.")
    headers: Mapping[str, SecretStr] = Field(
        default={}, description="Further headers, such as Authorization; never printed."
    )
    allow_private: bool = Field(
        default=False, description="Allow targets on loopback and private networks."
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr) -> SecretStr:
        return _web_address(url, "a webhook's url")

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        for name, value in headers.items():
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
                raise ValueError(f"{name!r} is no name of a header")
            if re.search(r"[^\x20-\x7e\t]", value.get_secret_value()):
                raise ValueError(f"the header {name} holds a character that no header may hold")
        return headers


class PagerDutySettings(CommonSettings):
    """A PagerDuty service, by its Events API v2 integration."""

    type: Literal["pagerduty"] = Field(description="The kind of receiver.")
    routing_key: SecretStr = Field(
        description="The integration key (32 characters) of an Events API v2 integration."
    )
    region: Literal["us", "eu"] = Field(default="us", description="Where the account lives.")
    url: SecretStr | None = Field(
        default=None, description="Another base URL, for a proxy; empty: PagerDuty's own."
    )
    allow_private: bool = Field(
        default=False, description="Allow targets on loopback and private networks."
    )
    page_as: Literal["critical", "error", "warning", "info"] = Field(
        default="critical", description="What PagerDuty calls a page."
    )
    ticket_as: Literal["critical", "error", "warning", "info"] = Field(
        default="warning", description="What PagerDuty calls a ticket."
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="A REST API key that may read incidents: acknowledgements given there are taken "
        "over.",
    )
    api_url: SecretStr | None = Field(
        default=None, description="Another base URL of the REST API; empty: PagerDuty's own."
    )

    @field_validator("routing_key")
    @classmethod
    def _whole(cls, key: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[A-Za-z0-9]{32}", key.get_secret_value()):
            raise ValueError(
                "a routing key has 32 letters and digits; copy it from the service's "
                "Events API v2 integration"
            )
        return key

    @field_validator("url", "api_url")
    @classmethod
    def _http(cls, url: SecretStr | None) -> SecretStr | None:
        return None if url is None else _web_address(url, "PagerDuty's url")

    @property
    def closes(self) -> bool:
        return True


class SlackSettings(CommonSettings):
    """A Slack channel: by an incoming webhook, or by a bot, which can change its message."""

    type: Literal["slack"] = Field(description="The kind of receiver.")
    url: SecretStr | None = Field(
        default=None, description="An incoming webhook's URL; or give bot_token and channel."
    )
    bot_token: SecretStr | None = Field(
        default=None,
        description="A bot's token (xoxb-…, scope chat:write): its message is changed at the end.",
    )
    channel: str = Field(
        default="", description="The channel's id (C…) that the bot is a member of."
    )
    api_url: str = Field(default="https://slack.com/api", description="Slack's Web API.")
    mention: str = Field(
        default="",
        pattern=r"^(|<!(here|channel)>|<@[A-Z0-9]+>|<!subteam\^[A-Z0-9]+>)$",
        description="Who is called on a page: `<!here>`, `<!channel>`, `<@U…>` or `<!subteam^S…>`.",
    )
    allow_private: bool = Field(
        default=False, description="Allow targets on loopback and private networks."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.url is None) == (self.bot_token is None):
            raise ValueError("Slack is told by url (a webhook) or by bot_token and channel")
        if self.bot_token is not None and not re.fullmatch(r"[CGD][A-Z0-9]{2,20}", self.channel):
            raise ValueError(
                "a bot needs the channel's id (C…); it stands at the end of the channel's details"
            )
        if self.url is not None:
            _web_address(self.url, "Slack's url")
        _web_address(SecretStr(self.api_url), "Slack's api_url")
        return self


class SnsSettings(CommonSettings):
    """A topic of Amazon SNS."""

    type: Literal["sns"] = Field(description="The kind of receiver.")
    topic_arn: str = Field(description="arn:aws:sns:REGION:ACCOUNT:TOPIC; .fifo is taken too.")
    profile: str | None = Field(
        default=None, description="A profile of the AWS configuration; empty: the usual search."
    )
    endpoint_url: str | None = Field(
        default=None, description="Another endpoint, such as one in a VPC; wants allow_private."
    )
    allow_private: bool = Field(
        default=False, description="Allow an endpoint on loopback and private networks."
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        if _TOPIC.fullmatch(self.topic_arn) is None:
            raise ValueError("a topic_arn looks like arn:aws:sns:eu-west-1:111122223333:pages")
        if self.endpoint_url is not None:
            _web_address(SecretStr(self.endpoint_url), "SNS's endpoint_url")
            if not self.allow_private:
                raise ValueError("an endpoint_url of one's own wants allow_private: true")
        return self

    @property
    def region(self) -> str:
        found = _TOPIC.fullmatch(self.topic_arn)
        if found is None:
            raise AssertionError("a topic without a region is refused when it is read")
        return found[1]


class MailSettings(CommonSettings):
    """E-mail by SMTP."""

    type: Literal["email"] = Field(description="The kind of receiver.")
    host: str = Field(pattern=r"^[A-Za-z0-9.\-:]{1,253}$", description="The SMTP server.")
    port: int = Field(default=587, ge=1, le=65_535, description="Its port: 587, 465 or 25.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="starttls (587), tls from the first byte (465), or none."
    )
    ca_file: str | None = Field(
        default=None, description="Certificates to trust instead of the system's."
    )
    username: str = Field(default="", description="Whom to log in as; empty: no login.")
    password: SecretStr | None = Field(default=None, description="Its password; never printed.")
    sender: _Address = Field(description="The From address.")
    to: tuple[_Address, ...] = Field(min_length=1, max_length=50, description="Who gets it.")

    @model_validator(mode="after")
    def _kept(self) -> Self:
        if bool(self.username) != (self.password is not None):
            raise ValueError("username and password go together")
        if self.username and self.security == "none":
            raise ValueError("a password is not sent in the clear; use starttls or tls")
        return self


class AlertmanagerSettings(CommonSettings):
    """A Prometheus Alertmanager, by its API v2."""

    type: Literal["alertmanager"] = Field(description="The kind of receiver.")
    url: SecretStr = Field(description="Its base URL, such as http://alertmanager:9093.")
    headers: Mapping[str, SecretStr] = Field(
        default={}, description="Further headers, such as Authorization; never printed."
    )
    labels: Mapping[str, str] = Field(
        default={}, description="Labels that every alert gets, for Alertmanager's routes."
    )
    allow_private: bool = Field(
        default=False, description="Allow targets on loopback and private networks."
    )
    again_s: float = Field(
        default=60.0, ge=1, le=3600, description="What still fires is posted again so often (s)."
    )
    ends_after_s: float = Field(
        default=14_400.0,
        ge=60,
        le=604_800,
        description="Without being posted again it ends there after so long (s).",
    )
    silences_every_s: float | None = Field(
        default=None,
        ge=5,
        le=3600,
        description="Silences given there are asked for so often and honoured here, for all "
        "receivers (s); null: they are left there.",
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr) -> SecretStr:
        return _web_address(url, "Alertmanager's url")

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        if self.ends_after_s < 4 * self.again_s:
            raise ValueError("ends_after_s is at least four times again_s, or what fires may end")
        return self

    @property
    def again_every_s(self) -> float:
        return self.again_s

    @property
    def closes(self) -> bool:
        return True


class AppriseSettings(CommonSettings):
    """Whatever else Apprise can tell: Teams, Telegram, Opsgenie, ntfy and a hundred more."""

    type: Literal["apprise"] = Field(description="The kind of receiver.")
    urls: tuple[SecretStr, ...] = Field(
        min_length=1, description="Apprise URLs such as tgram://TOKEN/CHAT; never printed."
    )
    allow_private: bool = Field(
        default=False, description="Allow hosts on loopback and private networks."
    )


KINDS: dict[str, type[CommonSettings]] = {
    "webhook": WebhookSettings,
    "pagerduty": PagerDutySettings,
    "slack": SlackSettings,
    "sns": SnsSettings,
    "email": MailSettings,
    "alertmanager": AlertmanagerSettings,
    "apprise": AppriseSettings,
}
"""Every kind of receiver by its `type`."""


def kind_of(value: Any) -> str:
    """The `type` that was written; without one it is a webhook."""
    if isinstance(value, Mapping):
        return str(value.get("type", "webhook"))
    return str(getattr(value, "type", "webhook"))


ReceiverSettings = Annotated[
    Annotated[WebhookSettings, Tag("webhook")]
    | Annotated[PagerDutySettings, Tag("pagerduty")]
    | Annotated[SlackSettings, Tag("slack")]
    | Annotated[SnsSettings, Tag("sns")]
    | Annotated[MailSettings, Tag("email")]
    | Annotated[AlertmanagerSettings, Tag("alertmanager")]
    | Annotated[AppriseSettings, Tag("apprise")],
    Discriminator(
        kind_of,
        custom_error_type="receiver_type",
        custom_error_message=f"there is no such type of receiver; known: {', '.join(KINDS)}",
    ),
]


def _web_address(url: SecretStr, what: str) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        port_is_right, parts = False, urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_right:
        raise ValueError(f"{what} begins with http:// or https:// and names a host")
    return url
