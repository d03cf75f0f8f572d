"""Labels: who a number belongs to, as sorted name-value pairs with a bounded alphabet of names."""

from collections.abc import Iterable, Mapping

__all__ = [
    "LABEL_NAMES",
    "MAX_LABEL_LENGTH",
    "SOURCES",
    "Labels",
    "labels_of",
    "matches",
    "project",
    "value_of",
]

Labels = tuple[tuple[str, str], ...]

LABEL_NAMES = (
    "service",
    "model",
    "model_version",
    "engine",
    "replica",
    "role",
    "pool",
    "region",
    "zone",
    "use_case",
    "tenant",
    "source",
    "gpu_uuid",
    "finish_reason",
    "reason",
    "node",
    "namespace",
    "pod",
    "gpu_name",
    "gpu_parent",
)
"""Every label a series may carry; anything else is dropped and counted at the door."""

SOURCES = ("span", "frontend", "page", "client", "probe")
"""How a number was measured, the one we believe first: see `docs/decisions/0004`."""

MAX_LABEL_LENGTH = 256


def labels_of(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> Labels:
    """Sorted, without empty values: an empty label and an absent one are the same."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return tuple(sorted((name, value) for name, value in items if value))


def value_of(labels: Labels, name: str) -> str:
    """The value of one label, or the empty string."""
    return next((value for key, value in labels if key == name), "")


def matches(labels: Labels, where: Labels) -> bool:
    """Does every pair asked for stand in the labels? Asking for "" means "absent"."""
    own = dict(labels)
    return all(own.get(name, "") == value for name, value in where)


def project(labels: Labels, by: Iterable[str]) -> Labels:
    """The labels a grouping keeps."""
    kept = frozenset(by)
    return tuple((name, value) for name, value in labels if name in kept)
