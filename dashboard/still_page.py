"""A page without scripts in the look of the others, so that it opens where nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dashboard.mount import asked

__all__ = ["still_page"]

_SHEETS = ("theme", "stagewatch", "frame")
_PAGE = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>{title}: Stagewatch</title>
    <link rel="icon" href="data:,">
    {sheets}
  </head>
  <body>
    <main class="{kind}">
{body}
    </main>
  </body>
</html>
"""


def still_page(title: str, body: str, *, kind: str, sheets: Sequence[str] = ()) -> str:
    """`body` is HTML already; `kind` is the class of what is styled, `sheets` its own style."""
    prefix = escape(asked().prefix)
    links = "\n    ".join(
        f'<link rel="stylesheet" href="{prefix}/assets/{name}.css">' for name in (*_SHEETS, *sheets)
    )
    return _PAGE.format(title=escape(title), sheets=links, kind=kind, body=body)
