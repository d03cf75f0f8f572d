"""The settings of objectives, evaluation and receivers: one frozen value, every field explained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from domain.objective import Severity

__all__ = ["AlertsSettings", "ConditionSettings", "WebhookSettings"]

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class WebhookSettings(BaseModel):
    """One receiver that takes a POST with a JSON body."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Name = Field(description="What the delivery log calls it; keep it when the URL moves.")
    type: Literal["webhook"] = Field(default="webhook", description="The kind of receiver.")
    url: SecretStr = Field(description="Where to POST; never printed, since URLs carry tokens.")
    headers: Mapping[str, SecretStr] = Field(
        default={}, description="Further headers, such as Authorization; never printed."
    )
    severities: tuple[Severity, ...] = Field(
        default=(Severity.PAGE, Severity.TICKET), description="What this receiver is told."
    )
    allow_private: bool = Field(
        default=False, description="Allow targets on loopback and private networks."
    )
    timeout_s: float = Field(default=5.0, gt=0, le=60, description="Patience for one attempt (s).")
    give_up_after_s: float = Field(
        default=86_400.0, gt=0, description="An undelivered notification is given up then (s)."
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr) -> SecretStr:
        parts = urlsplit(url.get_secret_value())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a webhook's url begins with http:// or https:// and names a host")
        return url


def _off(value: object) -> object:
    """`off`, which YAML 1.1 reads as false, is no severity."""
    return None if value is False or value in ("off", "false", "none") else value


_SeverityOrOff = Annotated[Severity | None, BeforeValidator(_off)]


class ConditionSettings(BaseModel):
    """Alerts on engines themselves; they need no objective."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine_stalled: _SeverityOrOff = Field(
        default=Severity.PAGE,
        description="An engine has requests and nothing moves: page, ticket or off.",
    )
    target_down: _SeverityOrOff = Field(
        default=Severity.TICKET,
        description="A sidecar says that its engine does not answer: page, ticket or off.",
    )
    down_after_s: int = Field(
        default=30, ge=0, le=3600, description="It has not answered for so long (s)."
    )
    forget_after_s: int = Field(
        default=86_400,
        ge=600,
        description="An alert of a replica that nobody has heard of for so long ends (s).",
    )


class AlertsSettings(BaseModel):
    """What is promised, how it is watched, who is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objectives: tuple[str | dict[str, Any], ...] = Field(
        default=(),
        description="Files of objectives, phrases (`p99 ttft <= 1.5s over 30d`), or mappings.",
    )
    receivers: tuple[WebhookSettings, ...] = Field(default=(), description="Who is told.")
    state_url: SecretStr | None = Field(
        default=None, description="SQLAlchemy URL of the state; default: a file in the data path."
    )
    public_url: str = Field(
        default="http://127.0.0.1:8400", description="Links in notifications begin with this."
    )
    grace_s: float = Field(
        default=10.0,
        ge=0,
        le=600,
        description="A minute that the sources have not closed is judged this long after it (s).",
    )
    lateness_s: int = Field(
        default=600,
        ge=0,
        le=86_400,
        description="Minutes are read again this long, for late data (s).",
    )
    conditions: ConditionSettings = Field(
        default=ConditionSettings(), description="Alerts on engines themselves."
    )
    slices_retention_days: int = Field(
        default=90, ge=1, description="Minute slices are kept this long (days)."
    )

    @model_validator(mode="after")
    def _names_differ(self) -> "AlertsSettings":
        names = [receiver.name for receiver in self.receivers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two receivers are called {twice[0]!r}; rename one")
        return self

    def state_location(self, data_dir: Path) -> str:
        """The SQLAlchemy URL of the state."""
        if self.state_url is not None:
            return self.state_url.get_secret_value()
        return f"sqlite:///{data_dir / 'alerts.db'}"
