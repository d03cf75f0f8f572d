"""Whether a template works, tried on every kind of notification before any of them happens."""

from __future__ import annotations

from alerts.receivers.body import names, read
from alerts.receivers.samples import EVENTS, sample

__all__ = ["prove"]


def prove(template: str, *, where: str) -> None:
    """Raises one clear error, or all is well."""
    # why here: only who has a template pays for Jinja
    from alerts.receivers.template import checked  # noqa: PLC0415

    samples = {kind: read(sample(kind)).values() for kind in EVENTS}
    checked(template, where=where, names=names(), samples=samples)
