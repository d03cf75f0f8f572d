"""The configuration: one YAML file, every field overridable by an environment variable.

`STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT=4319` overrides `collector: {otlp_http_port: …}`. An unknown
key is an error that names the line and the key that was probably meant.
"""

import difflib
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from alerts.access_settings import AuthSettings
from alerts.receivers.settings import KINDS, ReceiverSettings
from alerts.settings import AlertsSettings
from collector.settings import CollectorSettings, TierRetention
from domain.errors import ConfigError
from exporters.cloudwatch.settings import CloudWatchSettings
from exporters.delivery.settings import DeliverySettings
from exporters.engine.settings import EngineSettings
from exporters.gpu.settings import GpuSettings
from exporters.probe.settings import ProbeSettings
from review.settings import PriceSettings, ReviewSettings
from stagewatch.remote_write.settings import RemoteWriteOutSettings
from stagewatch.summary.settings import SummarySettings
from stagewatch.telemetry.settings import TelemetrySettings
from stagewatch.yaml_file import Located, read

__all__ = [
    "MOVED",
    "AuthSettings",
    "Config",
    "DashboardSettings",
    "ExporterSettings",
    "RetentionSettings",
    "StoreSettings",
    "load",
]

Place = tuple[int | str, ...]
Delivering = TypeVar("Delivering", bound=DeliverySettings)

MOVED = (  # settings of a part that the file has in a section of their own
    ("collector", "tokens", "auth.tokens"),
    ("collector", "requests_retention_s", "retention.requests_s"),
    ("collector", "retention", "retention.tiers"),
    ("alerts", "objectives", "objectives"),
    ("alerts", "receivers", "receivers"),
)


class StoreSettings(BaseModel):
    """Where the telemetry and the state of the alerts lie."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path = Field(
        default=Path("stagewatch-data"), description="Directory on a local disk; made when missing."
    )


class RetentionSettings(BaseModel):
    """How long what is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests_s: int = Field(default=72 * 3600, ge=60, description="Single requests (s).")
    tiers: TierRetention = Field(
        default=TierRetention(), description="Histograms and numbers, by tier."
    )


class DashboardSettings(BaseModel):
    """Where the pages and the API are served."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(
        default=8400, ge=0, le=65_535, description="Port of pages and API; 0: a free one."
    )
    refresh_s: float = Field(
        default=30.0, ge=1, description="How often an open page asks again (s)."
    )
    silent_s: float = Field(
        default=90.0,
        ge=5,
        description="Where nothing has arrived for so long, every live page says so (s).",
    )
    path_prefix: str = Field(
        default="/",
        pattern=r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){0,8}/?$",
        description="The path under which a reverse proxy serves pages and API, such as `/watch`; "
        "one of `auth.proxies` may say another by `X-Forwarded-Prefix`.",
    )


class ExporterSettings(BaseModel):
    """The sidecars that `stagewatch up` runs in its own process, if any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: EngineSettings | None = Field(default=None, description="Scrapes inference engines.")
    gpu: GpuSettings | None = Field(default=None, description="Reads the GPUs of this machine.")
    probe: ProbeSettings | None = Field(default=None, description="Asks endpoints from outside.")
    cloudwatch: CloudWatchSettings | None = Field(
        default=None, description="Reads managed endpoints from AWS CloudWatch."
    )


class Config(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="STAGEWATCH_", env_nested_delimiter="__"
    )

    store: StoreSettings = StoreSettings()
    collector: CollectorSettings = CollectorSettings()
    auth: AuthSettings = AuthSettings()
    exporters: ExporterSettings = ExporterSettings()
    objectives: tuple[str | dict[str, Any], ...] = Field(
        default=(), description="Phrases (`p99 ttft <= 1.5s over 30d`), mappings, or files of them."
    )
    receivers: tuple[ReceiverSettings, ...] = Field(
        default=(), description="Who is told of alerts."
    )
    retention: RetentionSettings = RetentionSettings()
    alerts: AlertsSettings = AlertsSettings()
    dashboard: DashboardSettings = DashboardSettings()
    summary: SummarySettings = SummarySettings()
    prices: tuple[PriceSettings, ...] = Field(
        default=(), max_length=100, description="What workers cost, for the weekly review."
    )
    review: ReviewSettings = ReviewSettings()
    remote_write_out: RemoteWriteOutSettings = RemoteWriteOutSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @model_validator(mode="after")
    def _one_place_each(self) -> Self:
        for section, name, home in MOVED:
            if name in getattr(self, section).model_fields_set:
                raise ValueError(f"{section}.{name} is set in a section of its own: {home}")
        return self

    @property
    def collecting(self) -> CollectorSettings:
        """The collector's settings, with those that have a section of their own."""
        return self.collector.model_copy(
            update={
                "tokens": self.auth.senders,
                "requests_retention_s": self.retention.requests_s,
                "retention": self.retention.tiers,
            }
        )

    @property
    def alerting(self) -> AlertsSettings:
        """The same for the alerts."""
        update = {"objectives": self.objectives, "receivers": self.receivers}
        return self.alerts.model_copy(update=update)

    def beside(self, settings: Delivering, endpoint: str | None = None) -> Delivering:
        """An exporter's settings in this process, where what they leave open is ours.

        That is the address it sends to, with a token of ours, and where its spool lies.
        """
        update: dict[str, Any] = {"spool_dir": self.store.data_dir / "spool"}
        if endpoint is not None:
            update |= {"endpoint": endpoint, "token": next(iter(self.auth.senders), None)}
        said = settings.model_fields_set
        if "endpoint" in said:  # why: a token of ours is nobody else's business
            said = said | {"token"}
        return settings.model_copy(update={k: v for k, v in update.items() if k not in said})

    @property
    def probing(self) -> ProbeSettings | None:
        """The probe's settings, with its books among our data unless they say where they are."""
        settings = self.exporters.probe
        if settings is None or "state_file" in settings.model_fields_set:
            return settings
        return settings.model_copy(update={"state_file": self.store.data_dir / "probe.json"})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load(path: Path | None) -> Config:
    """The configuration of a file, or of the environment alone."""
    file = read(path) if path else Located("environment", {}, {})
    if not isinstance(file.values, dict):
        raise ConfigError(
            "is not a mapping of sections",
            where=file.name,
            remedy=f"Begin with a section: {', '.join(Config.model_fields)}.",
        )
    try:
        return Config(**file.values)
    except ValidationError as error:
        raise _explained(error, file) from error


def _explained(error: ValidationError, file: Located) -> ConfigError:
    """The first problem, and how many more there are."""
    # why unknown keys first: a misspelt one is often why another is missing
    first, *others = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    remedy = _remedy(first)
    if others:
        remedy += f" ({len(others)} more after that)"
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    if first["type"] == "extra_forbidden":
        message = f"there is no setting {str(first['loc'][-1])!r} here"
    return ConfigError(message, where=file.where(_written(first["loc"])), remedy=remedy)


def _written(place: Place) -> Place:
    """The place as the file has it: the kind of a receiver is no key there."""
    untold = len(place) > 2 and place[0] == "receivers" and place[2] in KINDS
    return (*place[:2], *place[3:]) if untold else place


def _remedy(problem: ErrorDetails) -> str:
    if problem["type"] == "missing":
        return "Add it."
    if problem["type"] != "extra_forbidden":
        return "Change it, or leave it out to take the default."
    known = _fields_at(problem["loc"][:-1])
    meant = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
    return f"Did you mean {meant[0]!r}?" if meant else f"Known here: {', '.join(known)}."


def _fields_at(place: Place) -> list[str]:
    """The settings that a section knows."""
    model: Any = Config
    for part in place:
        if isinstance(part, int):
            continue
        if place[0] == "receivers" and part in KINDS:
            model = KINDS[part]
            continue
        field = model.model_fields.get(part) if hasattr(model, "model_fields") else None
        model = _model_in(field.annotation) if field else None
    return list(model.model_fields) if hasattr(model, "model_fields") else []


def _model_in(annotation: Any) -> Any:
    """The model inside `Model | None`, `tuple[Model, ...]` or `Model`."""
    if hasattr(annotation, "model_fields"):
        return annotation
    inside = (_model_in(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in inside if model is not None), None)
