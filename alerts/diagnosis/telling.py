"""A diagnosis in words and as JSON: the same on the page, in the notification and in the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from alerts.diagnosis.diagnosis import Cause, Diagnosis
from alerts.diagnosis.judgement import FAILED
from alerts.diagnosis.wording import ms, plain, share

__all__ = ["diagnosis_json", "lines", "sentence", "text", "wanting"]

_SHORT = 300
_STATES = {
    None: "was not asked about: name it with --service",
    True: "is slow too: name it with --service",
    False: "breaks no promise",
}


def lines(diagnosis: Diagnosis) -> tuple[str, ...]:
    """One line per cause, the likeliest first: for a notification."""
    return tuple(_clipped(sentence(each)) for each in diagnosis.causes)


def sentence(cause: Cause) -> str:
    """The cause, where, what speaks for it and against it, and what to do."""
    where = f" ({cause.place})" if cause.place and cause.place not in cause.cause else ""
    told = f"{cause.rule}, {cause.confidence}: {cause.cause}{where}: {'; '.join(cause.evidence)}"
    against = f"; but {'; '.join(cause.contra)}" if cause.contra else ""
    return plain(f"{told}{against}. Next: {cause.next_step}.")


def text(answer: Mapping[str, Any]) -> str:
    """The JSON for a terminal, as it is read at night: stages, causes, what was not evaluated."""
    return "\n".join(_line(each) for each in _text(answer))


def _line(words: str) -> str:
    """Our own empty line before a paragraph stays; a name makes none."""
    return "\n" * words.startswith("\n") + plain(words.removeprefix("\n"))


def _text(answer: Mapping[str, Any]) -> Iterator[str]:
    against = f"against {answer['baseline']}" if answer["baseline"] else "nothing to compare with"
    yield f"{answer['service']}: {answer['from']} to {answer['to']}, {against}"
    for line in answer["stages"]:
        yield f"  {line['stage']:<12} {_stage(line)}"
    if answer["trouble"]:
        yield f"\nit could not be looked for: {answer['trouble']}"
    elif not answer["causes"]:
        yield _nothing(slow=answer["slow"])
    for place, cause in enumerate(answer["causes"], start=1):
        yield from _cause(place, cause)
    for cause in answer["contradicted"]:
        yield f"\ncontradicted: {cause['rule']} {cause['cause']}: {'; '.join(cause['contra'])}"
    for cause in answer["savings"]:
        yield f"\nsaving: {cause['rule']} {cause['cause']}: {'; '.join(cause['evidence'])}"
    for other in answer["others"]:
        yield f"\nelsewhere: {other['service']} {_STATES[other['slow']]}"
    if answer["not_evaluated"]:
        yield "\nnot evaluated, which is not the same as fine:"
    for each in answer["not_evaluated"]:
        yield f"  {each['rule']:<4} {wanting(each['missing'])}"


def wanting(missing: Sequence[str]) -> str:
    """`signal X absent; 100 of 300 requests`: for want of what a rule could not be judged."""
    return "; ".join(
        each if each[:1].isdigit() or each.startswith(FAILED) else f"signal {each} absent"
        for each in missing
    )


def _nothing(*, slow: bool) -> str:
    if slow:
        return "\nsomething is wrong, and no rule that could be evaluated explains it"
    return "\nno promise is broken, and no engine is known to stand still"


def _stage(line: Mapping[str, Any]) -> str:
    if line["mean_s"] is None:
        return f"not measured: {line['missing_because']}"
    before = f", {ms(line['before_s'])} before" if line["before_s"] is not None else ""
    grown = line["share_of_growth"]
    return f"{ms(line['mean_s'])}{before}{f', {share(grown)} of what grew' if grown else ''}"


def _cause(place: int, cause: Mapping[str, Any]) -> Iterator[str]:
    about = [cause["rule"], *(cause[name] for name in ("stage", "place") if cause[name])]
    yield f"\n{place}. {cause['cause']} ({', '.join(about)}; confidence {cause['confidence']})"
    yield from (f"   for      {each}" for each in cause["evidence"])
    yield from (f"   against  {each}" for each in cause["contra"])
    yield from (f"   missing  {each}" for each in cause["missing"])
    yield f"   next     {cause['next']}"


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """As the API and `--format json` give it out."""
    return {
        "at": _rfc3339(diagnosis.at_s),
        "service": diagnosis.service,
        "from": _rfc3339(diagnosis.since_s),
        "to": _rfc3339(diagnosis.until_s),
        "slow": diagnosis.slow,
        "baseline": str(diagnosis.baseline) or None,
        "stages": [
            {
                "stage": line.stage,
                "mean_s": line.mean_s,
                "before_s": line.before_s,
                "share_of_growth": line.share_of_growth,
                "missing_because": line.reason or None,
            }
            for line in diagnosis.stages
        ],
        "causes": [_cause_json(each) for each in diagnosis.causes],
        "contradicted": [_cause_json(each) for each in diagnosis.contradicted],
        "savings": [_cause_json(each) for each in diagnosis.savings],
        "not_evaluated": [
            {"rule": each.rule, "missing": list(each.missing)} for each in diagnosis.not_evaluated
        ],
        "trouble": diagnosis.trouble or None,
        "hurried": diagnosis.hurried,
        "others": [{"service": name, "slow": slow} for name, slow in diagnosis.others],
    }


def _cause_json(cause: Cause) -> dict[str, Any]:
    return {
        "rule": cause.rule,
        "title": cause.title,
        "cause": cause.cause,
        "stage": cause.stage,
        "place": cause.place or None,
        "confidence": cause.confidence,
        "severity": cause.severity.value,
        "evidence": list(cause.evidence),
        "contra": list(cause.contra),
        "missing": list(cause.missing),
        "next": cause.next_step,
    }


def _clipped(words: str) -> str:
    return words if len(words) <= _SHORT else f"{words[: _SHORT - 1]}…"


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
