"""Prints under which licence each dependency comes; ends with 1 where one is not among ours.

What is shipped is everything that an extra of ours installs. Tools that only we run on our own
machines (`dev`, `image`) go into nobody's product, so more is allowed there.
"""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = frozenset(
    (
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "LGPL-3.0-only",
        "LLVM-exception",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Unlicense",
        "Zlib",
    )
)
"""LGPL and MPL: as libraries of their own, unchanged and exchangeable, as pip installs them."""
RUN = SHIPPED | {"GPL-3.0-only", "GPL-3.0-or-later"}
_SAID = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "GPL-3.0": "GPL-3.0-only",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What packages wrote before there was SPDX."""
_LOOKED_UP = {
    "axe-playwright-python": "MIT",  # its LICENSE file
    "docutils": "CC0-1.0 AND BSD-2-Clause",  # COPYING.rst; the GPL is of an editor's mode beside it
    "promql-parser": "MIT",  # its LICENSE file
}
"""Those whose metadata say nothing, or too little."""


def main() -> int:
    refused = 0
    for title, names, allowed in (
        ("shipped", shipped(), SHIPPED),
        ("run by us alone", locked() - shipped(), RUN),
    ):
        print(f"# {title}")
        for name in sorted(names):
            if (expression := licence(name)) is None:
                continue  # of another machine than this one
            fault = "" if fits(expression, allowed) else "   <- not among our licences"
            refused += bool(fault)
            print(f"{name} {version(name)}: {expression}{fault}")
    return 1 if refused else 0


def locked() -> set[str]:
    text = (ROOT / "requirements" / "dev.txt").read_text()
    return {
        canonicalize_name(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)
    }


def shipped() -> set[str]:
    """The project's extra `all`, and what that needs, and so on."""
    found: set[str] = set()
    waiting = [("stagewatch", "all")]
    while waiting:
        name, extra = waiting.pop()
        for need in _needs(name, extra):
            wanted = canonicalize_name(need.name)
            fresh = [(wanted, each) for each in ("", *need.extras)]
            waiting += [each for each in fresh if each[0] not in found or each[1]]
            found.add(wanted)
    return found - {"stagewatch"}


def _needs(name: str, extra: str) -> Iterator[Requirement]:
    try:
        told = requires(name) or []
    except PackageNotFoundError:  # why: it is for another machine than this one
        return
    for line in told:
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate({"extra": extra}):
            yield need


def licence(name: str) -> str | None:
    """As an SPDX expression; None for what is not installed on this machine."""
    try:
        told = metadata(name)
    except PackageNotFoundError:
        return None
    if name in _LOOKED_UP:
        return _LOOKED_UP[name]
    if expression := told.get("License-Expression"):
        return expression
    classes = [
        text.split(" :: ")[-1] for text in told.get_all("Classifier", ()) if "License" in text
    ]
    said = [each for each in classes if each != "DFSG approved"] or [
        told.get("License", "").strip()
    ]
    return " AND ".join(_SAID.get(each, each) for each in said) or "unknown"


def fits(expression: str, allowed: frozenset[str]) -> bool:
    """Whether one of its alternatives asks for nothing but what is allowed."""
    if "(" not in expression and " OR " in expression:
        return any(fits(each, allowed) for each in expression.split(" OR "))
    named = re.split(r" (?:AND|OR|WITH) |[()]", expression)
    return all(each.strip() in allowed for each in named if each.strip())


if __name__ == "__main__":
    sys.exit(main())
