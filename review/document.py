"""A report before it is HTML or Markdown: sections of sentences and tables, in the order they are read."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Document", "Grid", "Section"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table. The first cell of a row names it; `numbers` are columns of numbers by place.

    `strong`: the row that is advised, by place.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    strong: int | None = None

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.caption}: a row has another number of cells than the head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, sentences, points in order or none, and a table. `picture` is an inline SVG."""

    title: str
    sentences: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    ordered: bool = False
    grids: tuple[Grid, ...] = ()
    picture: str = ""
    small: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The verdict first; `kind` is the word for it. `facts` are what it is of, by name."""

    title: str
    kind: str
    says: str
    reasons: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
