"""Something that changed at an instant: a deploy, a scaling, a promise, a silence, a throttled GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from domain.errors import InputError
from domain.labels import LABEL_NAMES, MAX_LABEL_LENGTH, Labels

__all__ = ["Change", "report"]

_KIND = re.compile(r"[a-z][a-z0-9 _-]{0,31}")
_LONGEST_TITLE = 200
_LONGEST_LINK = 1000
_MOST_LABELS = 10
_OLDEST_S = 400 * 86_400
_AHEAD_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`author` is empty where Stagewatch saw it by itself. `until_s`: when it was over."""

    at_s: int
    kind: str
    title: str
    labels: Labels = ()
    link: str = ""
    author: str = ""
    id: str = ""
    until_s: int | None = None


def report(change: Change, *, now_s: int) -> Change:
    """The same, if it can be what somebody reports; refused in words otherwise."""
    title = " ".join(change.title.split())
    if not title or len(title) > _LONGEST_TITLE or not title.isprintable():
        raise _refused("title", f"is 1 to {_LONGEST_TITLE} printable characters")
    if not _KIND.fullmatch(change.kind):
        raise _refused("kind", "is a short word such as deploy, config or scaling")
    if not now_s - _OLDEST_S <= change.at_s <= now_s + _AHEAD_S:
        raise _refused("at", "lies at most 400 days back and one day ahead")
    _check_labels(change.labels)
    _check_link(change.link)
    return Change(
        at_s=change.at_s,
        kind=change.kind,
        title=title,
        labels=change.labels,
        link=change.link,
        author=change.author,
    )


def _check_labels(labels: Labels) -> None:
    unknown = [name for name, _ in labels if name not in LABEL_NAMES]
    if unknown:
        raise _refused("labels", f"has {unknown[0][:40]!r}; known are {', '.join(LABEL_NAMES)}")
    if len(labels) > _MOST_LABELS or any(len(value) > MAX_LABEL_LENGTH for _, value in labels):
        raise _refused(
            "labels", f"has at most {_MOST_LABELS} values of {MAX_LABEL_LENGTH} characters"
        )
    if not all(value.isprintable() for _, value in labels):
        raise _refused("labels", "has printable values")


def _check_link(link: str) -> None:
    """A link is clicked at night: it leads to a web page and nowhere else."""
    if not link:
        return
    try:
        parts = urlsplit(link)
    except ValueError:
        raise _refused("link", "is no address") from None
    web = parts.scheme in ("http", "https") and bool(parts.netloc) and "@" not in parts.netloc
    if not web or len(link) > _LONGEST_LINK or not link.isprintable() or " " in link:
        raise _refused(
            "link", f"is an http(s) address of at most {_LONGEST_LINK} characters, without a user"
        )


def _refused(field: str, rule: str) -> InputError:
    return InputError(f"{field} {rule}", where="event", remedy="Change it and send it again.")
