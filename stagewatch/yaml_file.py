"""A YAML file as plain values, with the line of every key and secrets filled in.

`${NAME}` stands for an environment variable and `${file:PATH}` for the content of a file, so that
no secret has to stand in a configuration. Aliases (`*name`) are refused: they can grow without end.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from domain.errors import ConfigError

__all__ = ["Located", "read"]

Place = tuple[str | int, ...]

_MAX_BYTES = 1 << 20
_SECRET = re.compile(r"\$\{(file:)?([^}]+)\}")


@dataclass(frozen=True, slots=True)
class Located:
    """What a file says, and on which line each of its keys and items stands."""

    name: str
    values: Any
    lines: Mapping[Place, int]

    def where(self, place: Place) -> str:
        """`file.yaml:12 (collector.host)`: the line of the nearest key that exists."""
        dotted = ".".join(str(part) for part in place)
        known = (place[:length] for length in range(len(place), 0, -1))
        line = next((self.lines[prefix] for prefix in known if prefix in self.lines), None)
        file = self.name if line is None else f"{self.name}:{line}"
        return f"{file} ({dotted})" if dotted else file


def read(path: Path, environment: Mapping[str, str] = os.environ) -> Located:
    """The file's values; a missing, oversized or malformed file is one clear error."""
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = error.strerror or "no reason given"
        raise ConfigError(
            f"cannot be read: {reason}", where=str(path), remedy="Check the path after --config."
        ) from error
    if len(text) > _MAX_BYTES:
        raise ConfigError(
            f"is {len(text)} bytes long", where=str(path), remedy="Keep it below 1 MiB."
        )
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"is not YAML: {' '.join(str(error).split())}",
            where=str(path),
            remedy="Mend that line; strings with : or # want quotes.",
        ) from error
    walk = _Walk(str(path), environment)
    values = {} if root is None else walk.value(root, ())
    return Located(str(path), values, walk.lines)


@dataclass(slots=True)
class _Walk:
    """One pass over the nodes of a file."""

    name: str
    environment: Mapping[str, str]
    lines: dict[Place, int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def value(self, node: yaml.Node, place: Place) -> Any:
        line = self.lines.setdefault(place, node.start_mark.line + 1)
        if id(node) in self.seen:
            raise self._error("uses an alias (*)", line, "Write the value out in both places.")
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*place, at)) for at, item in enumerate(node.value)]
        return self._scalar(node, line)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = str(self._scalar(key, line))
            if name in values:
                raise self._error(f"says {name!r} twice", line, "Keep one of them.")
            self.lines[*place, name] = line
            values[name] = self.value(value, (*place, name))
        return values

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        loader = yaml.SafeLoader("")
        try:
            value = loader.construct_object(node)
        except yaml.YAMLError as error:
            raise self._error(
                f"has a value of a kind that is not read: {error}", line, "Use plain YAML."
            ) from error
        finally:
            loader.dispose()
        return (
            _SECRET.sub(lambda m: self._secret(m, line), value) if isinstance(value, str) else value
        )

    def _secret(self, match: re.Match[str], line: int) -> str:
        from_file, name = match[1], match[2]
        if from_file:
            try:
                return Path(name).read_text().strip()
            except OSError as error:
                raise self._error(
                    f"cannot read {name}: {error.strerror}", line, "Check the path after file:."
                ) from error
        if name not in self.environment:
            raise self._error(
                f"asks for the environment variable {name}, which is not set",
                line,
                f"Set {name} before you start, or write the value here.",
            )
        return self.environment[name]

    def _error(self, problem: str, line: int, remedy: str) -> ConfigError:
        return ConfigError(problem, where=f"{self.name}:{line}", remedy=remedy)
