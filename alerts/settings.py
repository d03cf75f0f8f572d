"""The settings of objectives, evaluation and receivers: one frozen value, every field explained."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from alerts.life_settings import EscalationSettings, HeartbeatSettings, LeadSettings
from alerts.receivers.settings import ReceiverSettings
from domain.objective import Severity

__all__ = ["AlertsSettings", "ConditionSettings"]


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
    receivers: tuple[ReceiverSettings, ...] = Field(default=(), description="Who is told.")
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
    escalation: tuple[EscalationSettings, ...] = Field(
        default=(),
        description="Who is told of a page that nobody acknowledges, where its promise says nothing.",
    )
    heartbeat: HeartbeatSettings = Field(
        default=HeartbeatSettings(), description="A dead man's switch over all of this."
    )
    lead: LeadSettings = Field(
        default=LeadSettings(), description="Which of several processes evaluates."
    )
    slices_retention_days: int = Field(
        default=90,
        ge=1,
        description="Minute slices are kept this long (days), and as long as a budget holds them.",
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
