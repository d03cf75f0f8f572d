"""YAML as nodes that know their line and column, so that every refusal can point at its place."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from alerts.quantity import suggestion
from domain.errors import ConfigError

__all__ = ["MAX_BYTES", "Nodes", "composed", "documents", "text_of"]

MAX_BYTES = 1 << 20
_DEEPEST = 20
_LONGEST = 4096
_TAGS = ("str", "int", "float", "bool", "null", "timestamp", "seq", "map", "value", "merge")
_SAME_IN_ANY_READER = r"(0|[1-9]\d{0,14})(\.(0|\d{0,9}[1-9]))?"
_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")


def text_of(path: Path) -> str:
    """The content of a file of reasonable size."""
    try:
        content = path.read_bytes()
        if len(content) <= MAX_BYTES:
            return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ConfigError(
            f"cannot be read: {reason}", where=str(path), remedy="Check the path."
        ) from error
    raise ConfigError(
        f"is {len(content)} bytes long", where=str(path), remedy="Keep it below 1 MiB."
    )


def composed(text: str, name: str) -> yaml.Node | None:
    """The one document of a text, without aliases, odd tags or bottomless nesting."""
    with _refusing(name):
        return _Loader(text, name).get_single_node()


def documents(text: str, name: str) -> list[yaml.Node]:
    """Every document of a text that may hold several, as carefully."""
    loader, found = _Loader(text, name), []
    with _refusing(name):
        while loader.check_node():
            found.append(loader.get_node())
    return [node for node in found if node is not None]


@contextlib.contextmanager
def _refusing(name: str) -> Iterator[None]:
    """What is no YAML is one error with its place."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise ConfigError(
            f"is not YAML: {error.problem}", where=at, remedy="Quote texts that contain : or #."
        ) from error


class _Loader(yaml.SafeLoader):
    """Refuses aliases, which can grow without end, odd tags, and bottomless nesting."""

    def __init__(self, text: str, name: str) -> None:
        if len(text) > MAX_BYTES:
            raise ConfigError("is longer than 1 MiB", where=name, remedy="Split it.")
        try:
            super().__init__(text)
        except yaml.YAMLError as error:
            raise ConfigError(
                "is not YAML: it holds a character that YAML forbids",
                where=name,
                remedy="Save it as UTF-8 text.",
            ) from error
        self._nodes = Nodes(name)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # types-pyyaml left it out
        if isinstance(event, yaml.AliasEvent):
            self._nodes.refuse(event, "is an alias", "Write the value out in both places.")
        if self._depth > _DEEPEST:
            self._nodes.refuse(event, "is nested too deeply", "Close brackets.")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and node.tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
            self._nodes.refuse(node, f"has the tag {node.tag[:80]!r}", "Leave the tag out.")
        return node


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of one file, read as what they should be. `placed`: lines mean something in it."""

    file: str
    placed: bool = True

    def at(self, node: yaml.Node | yaml.Event) -> str:
        """`objectives.yaml:12:5`."""
        mark = node.start_mark
        if not self.placed or mark is None:
            return self.file
        return f"{self.file}:{mark.line + 1}:{mark.column + 1}"

    def refuse(self, node: yaml.Node | yaml.Event | None, problem: str, remedy: str) -> NoReturn:
        raise ConfigError(problem, where=self.at(node) if node else self.file, remedy=remedy)

    def mapping(
        self, node: yaml.Node, known: Sequence[str] | None, example: str
    ) -> dict[str, yaml.Node]:
        """Values by key; a key that is not known, or stands there twice, is refused."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, "is no mapping", f"Write {example}.")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self.text(key)
            if known is not None and name not in known:
                self.refuse(key, f"there is no key {name[:80]!r}", suggestion(name, known))
            if name in found:
                self.refuse(key, f"{name!r} stands here twice", "Keep one of the two.")
            found[name] = value
        return found

    def sequence(self, node: yaml.Node, example: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self.refuse(node, "is no list", f"Write {example}.")
        return list(node.value)

    def texts(self, node: yaml.Node) -> list[tuple[str, str]]:
        """One text or a list of them, each with its place."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return [(self.word(each), self.at(each)) for each in nodes]

    def text(self, node: yaml.Node) -> str:
        """As it is written: a number keeps its digits."""
        if not isinstance(node, yaml.ScalarNode):
            self.refuse(node, "is no plain value", "Write one text or number.")
        if len(node.value) > _LONGEST:
            self.refuse(node, f"is {len(node.value)} characters long", f"Keep it to {_LONGEST}.")
        return str(node.value)

    def word(self, node: yaml.Node) -> str:
        """A text that YAML takes for nothing else: `no` is refused, and so is `1:30`."""
        text, kind = self.text(node), node.tag.rsplit(":", 1)[-1]
        if kind not in ("str", "value") and not re.fullmatch(_SAME_IN_ANY_READER, text):
            self.refuse(
                node,
                f"{text!r} is a text here, but YAML also takes it for a {kind}",
                f'Write "{text}", with quotes.',
            )
        return text

    def flag(self, node: yaml.Node) -> bool:
        text = self.text(node).lower()
        if text not in (*_TRUE, *_FALSE):
            self.refuse(node, f"{text!r} is neither true nor false", "Write true or false.")
        return text in _TRUE

    def count(self, node: yaml.Node) -> int:
        text = self.text(node)
        if not re.fullmatch(r"[0-9]{1,9}", text):
            self.refuse(node, f"{text!r} is no count", "Use 0 or more; 0 lets one request page.")
        return int(text)
