"""The reference pages, made from the code they describe: settings, metrics, commands, API."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from alerts.diagnosis.catalogue import RULES
from alerts.diagnosis.roads import ASKED_OF_PEOPLE, ROADS
from alerts.diagnosis.rule import Rule
from alerts.runbook import ENTRIES, Entry, rule_entries
from exporters.engine.engines import ENGINES
from exporters.engine.table import Engine, Family, Row, Shape
from stagewatch.config import MOVED, Config
from stagewatch.reference_metrics import metrics_page

__all__ = ["commands", "engines", "pages", "rules", "runbook", "settings"]

_SECRET = "SecretStr"  # noqa: S105 - the name of a type


def pages(
    openapi: Mapping[str, Any], parser: argparse.ArgumentParser, own_metrics: str
) -> dict[str, str]:
    """Every generated page by its file name; `own_metrics`: what a running process shows."""
    return {
        "settings.md": settings(),
        "metrics.md": metrics_page(_MADE, own_metrics),
        "commands.md": commands(parser),
        "engines.md": engines(),
        "diagnosis.md": rules(),
        "runbook.md": runbook(),
        "api.md": _api(openapi),
    }


def settings() -> str:
    """All settings: what they are called in the file and in the environment."""
    rows = [
        f"| `{name}` | {_variable(name)} | {default} | {text} |"
        for name, default, text in _fields(Config)
        if not name.startswith(tuple(f"{section}.{moved}" for section, moved, _ in MOVED))
    ]
    return _page(
        "Settings",
        "One YAML file (`--config`), every field overridable by the environment. "
        "`${NAME}` and `${file:PATH}` stand for secrets. `stagewatch check-config FILE` checks it.",
        "| setting | environment | default | meaning |\n|---|---|---|---|",
        rows,
    )


def _variable(name: str) -> str:
    """What overrides it; an item of a list is overridden with the whole list."""
    if "[" in name:
        return ""
    return f"`STAGEWATCH_{name.upper().replace('.', '__')}`"


def engines() -> str:
    """Which family of which engine's page is which of our metrics."""
    sections = [_engine(engine) for engine in ENGINES]
    return (
        "# Engines\n"
        + _MADE
        + "What the engine exporter reads from each engine's page. Of several families in a row the "
        "first that the page has is read; bucket bounds come from the page. A target with a role "
        "gives only what is true for it: a prefill engine no TTFT, ITL, TPOT, E2E or decode. "
        "[How to watch each engine](../watch-any-engine.md)\n\n" + "\n".join(sections)
    )


def rules() -> str:
    """Every rule of the diagnosis: when it speaks, on what, and what it advises."""
    rows = [
        f"| {rule.id} | {rule.title} | {rule.condition} | {_signals(rule)} | {rule.against} "
        f"| {rule.action} | {rule.when.value} | {rule.severity.value} | {rule.source} |"
        for rule in RULES
    ]
    return (
        _page(
            "Diagnosis",
            "`stagewatch diagnose` and `/api/v1/diagnosis` judge every rule; a rule that lacks a signal "
            "is *not evaluated*, which is not the same as fine. Signals in brackets make it surer. "
            "[Why is it slow?](../why-is-it-slow.md)",
            "| rule | symptom | speaks when | signals | contradicted when | next step | counts "
            "| severity | source |\n|---|---|---|---|---|---|---|---|---|",
            rows,
        )
        + _roads()
    )


def _roads() -> str:
    """Where each signal comes from; first those that somebody has to give."""
    asked = [f"| {signal} | {road} |" for signal, road in ASKED_OF_PEOPLE.items()]
    others = [
        f"| {signal} | {road} |" for signal, road in ROADS.items() if signal not in ASKED_OF_PEOPLE
    ]
    return (
        "\n## Signals\nWhat no machine tells by itself stands first; a rule that lacks it says so "
        "with the same words.\n\n| signal | comes from |\n|---|---|\n"
        + "\n".join([*asked, *others])
        + "\n"
    )


def runbook() -> str:
    """What to do about each alert that is raised here, and about each cause."""
    rules = "".join(map(_entry, (entry for _, entry in rule_entries())))
    return (
        "# Runbook\n"
        + _MADE
        + "Every alert that Stagewatch raises: what it means, where to look and what to do, in this "
        "order. Notifications and exported rules link here, unless the promise names a `runbook` of "
        "its own; a running Stagewatch shows the same under `/runbook`. "
        "[Read a page at 3 a.m.](../read-a-page-at-3am.md)\n\n## Alerts\n"
        + "".join(map(_entry, ENTRIES))
        + "\n## Causes\nThe [rules of the diagnosis](diagnosis.md), by their number.\n"
        + rules
    )


def _entry(entry: Entry) -> str:
    steps = "\n".join(f"{place}. {step}" for place, step in enumerate(entry.steps, 1))
    name = entry.anchor.upper() if len(entry.anchor) < 4 else entry.anchor.replace("-", " ")
    ends = f"\n\n{entry.ends}" if entry.ends else ""
    return f"\n### {name}\n**{entry.title}.** {entry.means}\n\n{steps}{ends}\n"


def _signals(rule: Rule) -> str:
    needed = [*rule.needs, *rule.compares]
    told = list(dict.fromkeys(signal.value for signal in needed if signal not in rule.either))
    if rule.either:
        told.append(" or ".join(signal.value for signal in rule.either))
    if rule.at_least:
        told.append(f"≥ {rule.at_least} requests")
    optional = [f"({signal.value})" for signal in rule.helps]
    return ", ".join([*told, *optional])


def _engine(engine: Engine) -> str:
    written = ", ".join(f"`{prefix}…`" for prefix in engine.prefixes if prefix) or "no prefix"
    facts = [
        f"Label `engine`: `{engine.name}`. Names: {written}.",
        f"Source: `{engine.source}`.",
        f"Switch on: {engine.switch}" if engine.switch else "",
        f"Cannot tell: {engine.lacks}" if engine.lacks else "",
        _live(engine),
    ]
    rows = [
        f"| `{row.metric}` | {_read(row)} | {'; '.join(map(_family, row.families))} | {row.note} |"
        for row in engine.rows
    ]
    head = "| metric | read as | families | |\n|---|---|---|---|"
    told = "  \n".join(fact for fact in facts if fact)
    return f"## {engine.title}\n{told}\n\n{head}\n" + "\n".join(rows) + "\n"


def _live(engine: Engine) -> str:
    if not engine.live:
        return "A stall is not judged: nothing on the page moves with every step."
    return f"A stall is judged by {', '.join(f'`{family.name}`' for family in engine.live)}."


def _read(row: Row) -> str:
    words = {
        Shape.LATENCY: "histogram",
        Shape.MEAN: "mean of two counters",
        Shape.ESTIMATE: "sum of histograms",
        Shape.EVENTS: "count of a histogram",
        Shape.TOTAL: "sum of a histogram",
        Shape.INFO: "label of an info",
    }
    return words.get(row.shape, row.shape.value)


def _family(family: Family) -> str:
    chosen = ",".join(f'{name}="{value}"' for name, value in family.only)
    left_out = ",".join(f'{name}!="{value}"' for name, value in family.but)
    labels = ",".join(part for part in (chosen, left_out) if part)
    words = [
        f"`{family.name}{f'{{{labels}}}' if labels else ''}`",
        f"÷ `{family.per.name}`" if family.per is not None else "",
        f"label `{family.label}`" if family.label else "",
        f"(one per {family.sample})" if family.sample else "",
        f"(× {family.seconds_per_unit:g} s)" if family.seconds_per_unit != 1 else "",
        f"({family.versions})" if family.versions else "",
    ]
    return " ".join(word for word in words if word)


def commands(parser: argparse.ArgumentParser) -> str:
    """Every command's help, as it is printed."""
    sections = [f"```\n{parser.format_help()}```\n"]
    for name, command in sorted(_commands(parser)):
        sections.append(f"## {name}\n```\n{command.format_help()}```\n")
    return "# Commands\n" + _MADE + "\n".join(sections)


def _api(openapi: Mapping[str, Any]) -> str:
    rows = []
    for path, methods in sorted(openapi["paths"].items()):
        for method, operation in sorted(methods.items()):
            parameters = ", ".join(f"`{p['name']}`" for p in operation.get("parameters", ()))
            text = (operation.get("description") or operation.get("summary", "")).split("\n")[0]
            rows.append(f"| {method.upper()} | `{path}` | {parameters} | {text} |")
    return _page(
        "HTTP API",
        "`/openapi.json` has it in full. Errors are JSON: `detail`, `where`, `problem`, `remedy`.",
        "| method | path | parameters | answer |\n|---|---|---|---|",
        rows,
    )


_MADE = "<!-- made by `make golden` from the code; do not edit -->\n\n"


def _page(title: str, text: str, head: str, rows: list[str]) -> str:
    return f"# {title}\n{_MADE}{text}\n\n{head}\n" + "\n".join(rows) + "\n"


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inside = _model_of(field.annotation)
        if inside is not None and not field.description:
            yield from _fields(inside, f"{prefix}{name}.")
            continue
        yield f"{prefix}{name}", _default(field), field.description or ""
        kinds = _models_of(field.annotation)
        if len(kinds) > 1:
            yield from _fields_of_kinds(kinds, f"{prefix}{name}")
        elif inside is not None:
            listed = "[]" if "tuple" in str(field.annotation) else ""
            yield from _fields(inside, f"{prefix}{name}{listed}.")


def _fields_of_kinds(
    kinds: Sequence[type[BaseModel]], prefix: str
) -> Iterator[tuple[str, str, str]]:
    """What all kinds have, once; then what each has besides."""
    shared = set.intersection(*(set(kind.model_fields) for kind in kinds))
    for place, kind in enumerate(kinds):
        named = kind.model_fields["type"].annotation.__args__[0]  # type: ignore[union-attr] # a Literal
        for name, default, text in _fields(kind):
            if name in shared and place == 0:
                yield f"{prefix}[].{name}", default, text
        for name, default, text in _fields(kind):
            if name not in shared:
                yield f"{prefix}[{named}].{name}", default, text


def _default(field: Any) -> str:
    if field.is_required():
        return "**needed**"
    value = field.default
    if isinstance(value, BaseModel) or _SECRET in str(field.annotation):
        return ""
    if isinstance(value, tuple):
        return ", ".join(str(getattr(part, "value", part)) for part in value) or "none"
    return f"`{value}`" if value not in (None, {}, "") else "none"


def _models_of(annotation: Any) -> list[type[BaseModel]]:
    """Every model inside, in order."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in getattr(annotation, "__args__", ()) for m in _models_of(part)]


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = (_model_of(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in inside if model is not None), None)


def _commands(
    parser: argparse.ArgumentParser, prefix: str = "stagewatch"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no door
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            for name, command in action.choices.items():
                yield f"{prefix} {name}", command
                yield from _commands(command, f"{prefix} {name}")
