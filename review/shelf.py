"""Reviews that are kept, one file each in a folder of the data, and what people decided about them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from domain.errors import InputError, StagewatchError, StoreError
from review.plain import built, plain
from review.review_value import Review, from_json, to_json
from review.timetable import Timetable
from review.track_record import Advice

__all__ = ["MOST_WHY", "Decision", "Kept", "Shelf"]

MOST_WHY: Final = 1000
_MOST_AUTHOR: Final = 128
_MOST_BYTES: Final = 8 << 20
_MOST_LISTED: Final = 200
_ID: Final = re.compile(r"\d{8}-[0-9a-f]{10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether it was done, and why; `author` as they or their token said."""

    done: bool
    why: str
    author: str
    at_s: float

    def __post_init__(self) -> None:
        for name, most in (("why", MOST_WHY), ("author", _MOST_AUTHOR)):
            text = getattr(self, name)
            if not text.strip() or len(text) > most:
                raise InputError(
                    f"{name} is {'empty' if not text.strip() else f'longer than {most} letters'}",
                    where="decision",
                    remedy="Say in a sentence who decided and why.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A review with its name and the last word on it."""

    id: str
    review: Review
    decision: Decision | None = None


class Shelf:
    """A folder of reviews. A file is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def timetable(self) -> Timetable:
        """What the schedule does; it lies beside the reviews."""
        return Timetable(self._folder)

    def keep(self, review: Review) -> Kept:
        """The same review twice is one file."""
        kept = Kept(id=_name(review), review=review)
        self._write(kept.id, "json", to_json(review))
        return self.one(kept.id) or kept

    def decide(self, review_id: str, decision: Decision) -> Kept | None:
        """The last word counts; None where there is no such review."""
        kept = self.one(review_id)
        if kept is None:
            return None
        self._write(review_id, "decision", json.dumps(plain(decision), ensure_ascii=False))
        return replace(kept, decision=decision)

    def one(self, review_id: str) -> Kept | None:
        """None where there is none of that name."""
        if _ID.fullmatch(review_id) is None:
            return None
        text = self._read(review_id, "json")
        if text is None:
            return None
        return Kept(id=review_id, review=from_json(text), decision=self._decision(review_id))

    def all(self, *, service: str | None = None, limit: int = _MOST_LISTED) -> list[Kept]:
        """The newest first."""
        found = [each for each in self._each() if service in (None, each.review.service)]
        found.sort(key=lambda each: (each.review.until_s, each.review.at_s), reverse=True)
        return found[:limit]

    def advice(self, service: str, *, before_s: float) -> Advice | None:
        """What the last review of a period that ended before this one does foretold."""
        told = (each.review for each in self.all(service=service))
        return next((each.advice for each in told if each.until_s < before_s and each.advice), None)

    def damaged(self) -> tuple[str, ...]:
        """Of the newest, those that cannot be read: each by its file and what is wrong with it."""
        found = []
        for name in self._names():
            try:
                self.one(name)
            except StagewatchError as error:
                found.append(f"{self._folder / name}.json is left out: {error}")
        return tuple(found)

    def _names(self) -> list[str]:
        names = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True)
        return names[:_MOST_LISTED]

    def _each(self) -> Iterator[Kept]:
        for name in self._names():
            try:
                kept = self.one(name)
            except StagewatchError:
                continue  # why: one torn file must not hide the others; `damaged` says which
            if kept is not None:
                yield kept

    def _decision(self, review_id: str) -> Decision | None:
        text = self._read(review_id, "decision")
        if text is None:
            return None
        where = str(self._folder / f"{review_id}.decision")
        try:
            found = built(Decision, json.loads(text), where=where)
        except json.JSONDecodeError as error:
            raise InputError(
                f"it is no JSON: {error}", where=where, remedy="Remove it, and decide again."
            ) from error
        return found if isinstance(found, Decision) else None

    def _read(self, review_id: str, suffix: str) -> str | None:
        path = self._folder / f"{review_id}.{suffix}"
        try:
            with path.open("rb") as file:
                raw = file.read(_MOST_BYTES + 1)
            text = raw.decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(
                f"it cannot be read: {error}", where=str(path), remedy="Mend or remove it."
            ) from error
        if len(raw) > _MOST_BYTES:
            raise StoreError(
                f"it is larger than {_MOST_BYTES} bytes", where=str(path), remedy="Remove it."
            )
        return text

    def _write(self, review_id: str, suffix: str, text: str) -> None:
        path = self._folder / f"{review_id}.{suffix}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self._folder, delete=False, encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(path)
        except OSError as error:
            raise StoreError(
                f"it cannot be written: {error}", where=str(path), remedy="Check disk and rights."
            ) from error


def _name(review: Review) -> str:
    """The day it ends, and a digest of which period of what it is of."""
    day = datetime.fromtimestamp(review.until_s, UTC).strftime("%Y%m%d")
    of_what = repr((review.service, review.since_s, review.until_s, review.at_s))
    return f"{day}-{hashlib.sha256(of_what.encode()).hexdigest()[:10]}"
