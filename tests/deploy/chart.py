"""A chart rendered without Helm: as much of Go's templates as ours use, and no more.

What it does not know is an error, so that no template says something here and another thing there;
`real_helm.py` asks the real one.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.paths import ROOT

CHART = ROOT / "deploy" / "helm" / "stagewatch"

_ACTION = re.compile(
    r"(?P<before>\s*)\{\{(?P<left>-?)\s*(?P<code>.*?)\s*(?P<right>-?)\}\}", re.DOTALL
)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\||[^\s|]+')


class TemplateError(ValueError):
    """A template says what this does not know."""


@dataclass
class Block:
    """`if`, `with`, `define` or the whole: text, code, and blocks within."""

    kind: str = "whole"
    code: str = ""
    parts: list = field(default_factory=list)


def parsed(text):
    """The tree of one template."""
    stack, after, trim = [Block()], 0, False
    for action in _ACTION.finditer(text):
        between = text[after : action.start("left") - 2]
        between = between.lstrip() if trim else between
        stack[-1].parts.append(between.rstrip() if action["left"] else between)
        after, trim = action.end(), bool(action["right"])
        verb, _, rest = action["code"].partition(" ")
        if verb in ("if", "with", "define"):
            stack.append(Block(verb, rest))
            stack[-2].parts.append(stack[-1])
        elif verb == "end":
            stack.pop()
        elif verb in ("else", "range", "template", "block"):
            raise TemplateError(f"{{{{ {verb} }}}} is not known here")
        else:
            stack[-1].parts.append(Block("value", action["code"]))
    tail = text[after:]
    stack[-1].parts.append(tail.lstrip() if trim else tail)
    if len(stack) != 1:
        raise TemplateError("an end is missing, or one too many")
    return stack[0]


class Renderer:
    """All templates of one chart with one set of values."""

    def __init__(self, values, release, chart):
        self.root = {"Values": values, "Release": release, "Chart": chart}
        self.named = {}

    def define(self, tree):
        for part in tree.parts:
            if isinstance(part, Block) and part.kind == "define":
                self.named[part.code.strip('"')] = part

    def render(self, block, dot):
        return "".join(
            part if isinstance(part, str) else self._part(part, dot) for part in block.parts
        )

    def _part(self, block, dot):
        if block.kind == "define":
            return ""
        value = self._pipeline(block.code, dot)
        if block.kind == "value":
            return "" if value is None else str(value)
        if not value:
            return ""
        return self.render(block, value if block.kind == "with" else dot)

    def _pipeline(self, code, dot):
        calls, given = [[]], []
        for word in _WORD.findall(code):
            if word == "|":
                calls.append([])
            else:
                calls[-1].append(word)
        for call in calls:
            given = [self._call(call, given, dot)]
        return given[0]

    def _call(self, words, given, dot):
        first, *rest = words
        if first.startswith((".", '"')) or first.isdecimal():
            if rest or given:
                raise TemplateError(f"{first} is no function")
            return self._value(first, dot)
        if first not in _FUNCTIONS and first != "include":
            raise TemplateError(f"there is no function {first} here")
        arguments = [*(self._value(word, dot) for word in rest), *given]
        if first == "include":
            name, inner = arguments
            return self.render(self.named[name], inner)
        return _FUNCTIONS[first](*arguments)

    def _value(self, word, dot):
        if word.startswith('"'):
            return yaml.safe_load(word)
        if word.isdecimal():
            return int(word)
        if word == ".":
            return dot
        if not word.startswith("."):
            raise TemplateError(f"{word} is no value")
        value = dot
        for name in word.removeprefix(".").split("."):
            value = value[name]  # why not get: a value that values.yaml does not have is a slip
        return value


def _indented(width, text):
    return "\n".join(" " * width + line for line in text.split("\n"))


_FUNCTIONS = {
    "default": lambda otherwise, given: given or otherwise,
    "nindent": lambda width, text: "\n" + _indented(width, text),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "toYaml": lambda value: yaml.safe_dump(value, width=10_000).removesuffix("\n"),
}


def merged(base, over):
    """Helm's: maps are merged, everything else is replaced."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {
        name: merged(base.get(name), over[name]) if name in over else base[name]
        for name in {**base, **over}
    }


def rendered(values=None, *, release="stagewatch", namespace="stagewatch", chart=CHART):
    """The objects that `helm template` would print, and its notes."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    known = merged(yaml.safe_load((chart / "values.yaml").read_text()), values or {})
    renderer = Renderer(
        known,
        {"Name": release, "Namespace": namespace, "Service": "Helm"},
        {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
    )
    trees = {file: parsed(file.read_text()) for file in sorted((chart / "templates").iterdir())}
    for tree in trees.values():
        renderer.define(tree)
    texts = {file: renderer.render(tree, renderer.root) for file, tree in trees.items()}
    objects = [
        each
        for file, text in texts.items()
        if Path(file).suffix == ".yaml"
        for each in yaml.safe_load_all(text)
        if each
    ]
    return objects, texts[chart / "templates" / "NOTES.txt"]
