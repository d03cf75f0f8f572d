"""A container file as its stages, and which files of the tree an image may be built from."""

import json
import re
import shlex
from dataclasses import dataclass, field
from fnmatch import fnmatch

from tests.paths import ROOT

CONTAINERFILE = ROOT / "deploy" / "containers" / "Containerfile"


@dataclass
class Stage:
    """`FROM base AS name`, and what follows until the next."""

    name: str
    base: str
    steps: list = field(default_factory=list)

    def said(self, instruction):
        return [text for name, text in self.steps if name == instruction]


def stages(text):
    """By name; comments and continued lines are read as a builder reads them."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = {}
    for line in re.sub(r"\\\n\s*", "", lines).splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "FROM":
            base, _, name = rest.split()
            found[name] = Stage(name, base)
        elif instruction and found:
            found[next(reversed(found))].steps.append((instruction, rest.strip()))
    return found


def whole(found, name):
    """A stage with all that it is built upon, first things first."""
    stage = found[name]
    return [*(whole(found, stage.base) if stage.base in found else []), stage]


def copied(stages_of_one):
    """What is taken from the tree: `(source, target)`."""
    for stage in stages_of_one:
        for text in stage.said("COPY"):
            if not text.startswith("--from"):
                *sources, target = text.split()
                yield from ((source, target) for source in sources)


def health_check(stage):
    (text,) = stage.said("HEALTHCHECK")
    return json.loads(text.partition("CMD ")[2])


def labels(stage):
    (text,) = stage.said("LABEL")
    return dict(pair.partition("=")[::2] for pair in shlex.split(text))


def in_context(path):
    """Whether a builder gets this file: the last line of `.dockerignore` that matches decides."""
    kept = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and _matches(path, pattern):
            kept = line.startswith("!")
    return kept


def _matches(path, pattern):
    parts = path.split("/")
    folders = ["/".join(parts[: length + 1]) for length in range(len(parts))]
    if pattern.startswith("**/"):
        return any(fnmatch(part, pattern[3:]) for part in parts)
    depth = pattern.count("/")
    return any(fnmatch(each, pattern) for each in folders if each.count("/") == depth)
