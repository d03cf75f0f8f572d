"""A receiver from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from alerts.receivers.anything import Anything
from alerts.receivers.attempt import Receiver
from alerts.receivers.mail import Mail
from alerts.receivers.pagerduty import PagerDuty
from alerts.receivers.prometheus import Alertmanager
from alerts.receivers.settings import ReceiverSettings
from alerts.receivers.slack import Slack
from alerts.receivers.sns import Sns
from alerts.receivers.webhook import Webhook

__all__ = ["opened"]

_OPENED: Mapping[str, Callable[[Any], Receiver]] = {
    "alertmanager": Alertmanager,
    "apprise": Anything,
    "email": Mail,
    "pagerduty": PagerDuty,
    "slack": Slack,
    "sns": Sns,
    "webhook": Webhook,
}


def opened(settings: ReceiverSettings) -> Receiver:
    """Ready to send. What it needs beside the core is loaded when it first speaks."""
    return _OPENED[settings.type](settings)
