"""The probe's settings: whom to ask, what, how often, and how much it may cost."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from domain.labels import LABEL_NAMES, MAX_LABEL_LENGTH, Labels, labels_of
from exporters.delivery.settings import DeliverySettings, WebAddress

__all__ = ["Kind", "ProbeSettings", "ProbeTarget"]

Kind = Literal["openai-chat", "openai-completions", "bedrock", "sagemaker"]

_OURS = ("source", "reason", "finish_reason", "gpu_uuid")
_OWN_FIELDS = ("service", "model", "region", "replica")
_FREE = tuple(name for name in LABEL_NAMES if name not in (*_OURS, *_OWN_FIELDS))
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FRAMING = ("content-length", "transfer-encoding")
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
_PATHS = {"openai-chat": "/chat/completions", "openai-completions": "/completions"}
_AWS_HOSTS = {"bedrock": "bedrock-runtime", "sagemaker": "runtime.sagemaker"}
_AWS_PATHS = {
    "bedrock": "/model/{model}/converse-stream",
    "sagemaker": "/endpoints/{model}/invocations-response-stream",
}


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone; write one such as Europe/Berlin") from error
    return name


_Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH)]


class ProbeTarget(BaseModel):
    """One endpoint that is asked, and what we call it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    service: _Label = Field(description="The service; the same as `service.name` of its spans.")
    url: WebAddress | None = Field(
        default=None,
        description="The users' address: a host, `…/v1`, or the whole path. Needed for OpenAI "
        "kinds; for AWS kinds instead of the region's public endpoint.",
    )
    path: tuple[WebAddress, ...] = Field(
        default=(),
        description="Instead of `url`: addresses of one model from the engine outwards, the users' "
        "last. Where answers arrive in lumps, this finds the hop where that begins.",
    )
    kind: Kind = Field(default="openai-chat", description="What language the endpoint speaks.")
    model: _Label = Field(description="The model to ask for; of SageMaker the endpoint's name.")
    name: _Label | None = Field(
        default=None, description="Its `replica` label; host and port when absent."
    )
    region: _Label | None = Field(
        default=None, description="The `region` label; for AWS kinds also where to ask."
    )
    labels: Mapping[str, _Label] = Field(
        default={}, description="More labels of this target, such as `use_case` or `pool`."
    )
    api_key: SecretStr | None = Field(default=None, description="Sent as a bearer token.")
    headers: Mapping[str, SecretStr] = Field(
        default={}, description="More headers of the request; never printed."
    )
    body: Mapping[str, Any] = Field(
        default={},
        description="More of the request's JSON; null takes a field out, `{prompt}` is the "
        "question.",
    )
    usage: Literal["continuous", "final", "none"] = Field(
        default="continuous",
        description="How the server is asked to count tokens. Less is asked for where it refuses.",
    )
    ca_file: Path | None = Field(
        default=None, description="Certificates to trust instead of the system's."
    )
    timeout_s: float = Field(
        default=120.0, gt=0, le=3600, description="A whole probe must end within this time (s)."
    )
    interval_s: float | None = Field(
        default=None, ge=1, le=86_400, description="From one probe to the next (s), if its own."
    )
    prompt_words: int = Field(
        default=64, ge=1, le=200_000, description="Words of the question, about as many tokens."
    )
    max_tokens: int = Field(
        default=64, ge=1, le=8192, description="The most tokens that one answer may have."
    )
    cold_start_probe: bool = Field(
        default=True,
        description="Ask once more where a first token is late, to tell cold from slow.",
    )
    handshakes: int = Field(
        default=50, ge=0, le=500, description="Handshakes that find the network's floor; 0: none."
    )
    hour_probes: int = Field(
        default=120, ge=1, le=3600, description="The most requests in any hour, all told."
    )
    month_tokens: int | None = Field(
        default=None, ge=1, description="The most tokens in a calendar month, in and out."
    )
    month_usd: float | None = Field(
        default=None, gt=0, description="The most US dollars in a calendar month."
    )
    input_usd_per_million: float | None = Field(
        default=None, ge=0, description="Price of a million tokens in (US dollars)."
    )
    output_usd_per_million: float | None = Field(
        default=None, ge=0, description="Price of a million tokens out (US dollars)."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.url is not None and self.path:
            raise ValueError("give `url`, or `path` with the users' address last, not both")
        if not self.aws and self.url is None and not self.path:
            raise ValueError("give the `url` to ask, or a `path` of several")
        if self.aws and (self.region is None or self.path):
            raise ValueError(f"{self.kind} needs a `region`, and knows no `path`")
        if self.month_usd is not None and None in (
            self.input_usd_per_million,
            self.output_usd_per_million,
        ):
            raise ValueError("`month_usd` needs both prices, or nothing could be counted")
        return self

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        for name in self.labels:
            if name in _OWN_FIELDS:
                raise ValueError(f"{name} is a setting of its own; move it out of `labels`")
            if name not in _FREE:
                raise ValueError(f"{name!r} is no label; use one of {', '.join(_FREE)}")
        return self

    @model_validator(mode="after")
    def _headers_that_can_be_sent(self) -> Self:
        for name, value in self.headers.items():
            if name.lower() in _FRAMING:
                raise ValueError(f"header {name!r} follows from the body; leave it out")
            if not _HEADER.fullmatch(name) or not _VALUE.fullmatch(value.get_secret_value()):
                raise ValueError(f"header {name!r} cannot be sent: no line ends, plain characters")
        if self.api_key is not None and not _VALUE.fullmatch(self.api_key.get_secret_value()):
            raise ValueError("`api_key` cannot be sent: does a line end with the file's newline?")
        return self

    @property
    def aws(self) -> bool:
        """Asked in the way of AWS: signed, and answered in frames."""
        return self.kind in _AWS_HOSTS

    @property
    def hops(self) -> tuple[str, ...]:
        """Where to ask, from the engine outwards; the last is what users see."""
        if self.aws:
            return (self._aws_address,)
        addresses = self.path or ((self.url,) if self.url is not None else ())
        return tuple(_whole(address, self.kind) for address in addresses)

    @property
    def _aws_address(self) -> str:
        china = ".cn" if (self.region or "").startswith("cn-") else ""
        host = f"https://{_AWS_HOSTS[self.kind]}.{self.region}.amazonaws.com{china}"
        model = quote(self.model, safe="")
        return (self.url or host).rstrip("/") + _AWS_PATHS[self.kind].format(model=model)

    @property
    def address(self) -> str:
        """The users' address, whole."""
        return self.hops[-1]

    @property
    def replica(self) -> str:
        return self.name or urlsplit(self.address).netloc

    @property
    def series(self) -> Labels:
        """The labels that all of this target's series carry."""
        own = {
            "service": self.service,
            "model": self.model,
            "region": self.region or "",
            "replica": self.replica,
        }
        return labels_of({**self.labels, **own})


class ProbeSettings(DeliverySettings):
    """All targets of one sidecar, and where what they say goes."""

    targets: tuple[ProbeTarget, ...] = Field(min_length=1, description="The endpoints to ask.")
    interval_s: float = Field(
        default=60.0, ge=1, le=86_400, description="From one probe of a target to the next (s)."
    )
    floor_interval_s: float = Field(
        default=3600.0, ge=60, description="From one look for the network's floor to the next (s)."
    )
    handshake_spacing_s: float = Field(
        default=0.2, ge=0.02, le=60, description="From one handshake of a floor to the next (s)."
    )
    state_file: Path = Field(
        default=Path("stagewatch-data/probe.json"),
        description="What was spent this month; made when missing. `stagewatch up` puts it into its "
        "data directory.",
    )
    zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="The time zone in which a month begins."
    )
    spans: bool = Field(
        default=True,
        description="Send each probe as a client span too, so that it joins the engine's. TTFT, "
        "TPOT, ITL and E2E then travel in the span, not twice.",
    )

    listen_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address of the exporter's own page."
    )
    listen_port: int | None = Field(
        default=9465,
        ge=0,
        le=65_535,
        description="Port of the exporter's own `/metrics`; 0: a free one. Null: no page.",
    )

    @model_validator(mode="after")
    def _distinct_targets(self) -> Self:
        seen: set[Labels] = set()
        for target in self.targets:
            if target.series in seen:
                raise ValueError(
                    f"two targets are called {dict(target.series)}; give each its own `name`"
                )
            seen.add(target.series)
        return self


def _whole(address: str, kind: str) -> str:
    """The endpoint's own address: the path that the kind needs, where none is given."""
    parts = urlsplit(address)
    path = parts.path.rstrip("/")
    if path.endswith(_PATHS[kind]):
        return address
    if path in ("", "/v1") or path.endswith("/v1"):
        return parts._replace(path=f"{path or '/v1'}{_PATHS[kind]}").geturl()
    return address
