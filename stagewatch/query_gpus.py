"""`stagewatch query gpus`: a line for each GPU, then pools, engines that are wedged, nodes without a driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["COLUMNS", "gpu_rows", "print_gpus"]

COLUMNS = ("state", "gpu", "node", "held down", "memory", "power", "serves", "not told")
_SHORT = 18
_SLACK = 0.005  # of a window: less is not worth a word

Row = Mapping[str, object]


def gpu_rows(answer: Any) -> list[Row]:
    """For CSV: plain numbers, a column for each cause that any GPU tells of."""
    causes = sorted({cause for gpu in answer["gpus"] for cause in gpu["throttle"]["seconds"] or ()})
    return [_row(gpu, causes) for gpu in answer["gpus"]]


def _row(gpu: Any, causes: list[str]) -> Row:
    lists = ("throttle", "xids", "serves", "stragglers", "missing")
    row = {name: value for name, value in gpu.items() if name not in lists}
    row["observed_s"] = gpu["throttle"]["observed_s"]
    seconds, share = gpu["throttle"]["seconds"] or {}, gpu["throttle"]["share"] or {}
    for cause in causes:
        row[f"throttle_{cause}_s"] = seconds.get(cause)
        row[f"throttle_{cause}_share"] = share.get(cause)
    row["xids"] = " ".join(f"{xid}:{count}" for xid, count in sorted(gpu["xids"].items()))
    row["serves"] = " ".join(sorted(_whom(each) for each in gpu["serves"]))
    off = gpu["stragglers"]
    row["stragglers"] = None if off is None else " ".join(each["what"] for each in off)
    row["missing"] = " ".join(gpu["missing"])
    return row


def print_gpus(answer: Any) -> Iterator[str]:
    """The same for a person, line by line."""
    if not answer["gpus"] and not answer["nodes"]:
        yield f"no GPU was heard of from {answer['from']} to {answer['to']}"
        yield "next: run `stagewatch exporter gpu --once` on a machine with GPUs"
        return
    for node in answer["nodes"]:
        yield _plain(f"{node['node']}: no driver ({_words(node['reason']) or 'no word why'})")
    lines = [COLUMNS, *(_line(gpu) for gpu in answer["gpus"])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines if answer["gpus"] else ():
        yield "  ".join(map(str.ljust, line, widths)).rstrip()
    for pool in answer["pools"]:
        yield f"\npool {_pool(pool)}"
    for replica in answer["replicas"]:
        if replica["state"] in ("wedged", "suspect"):
            yield f"\n{_wedged(replica)}"


def _line(gpu: Any) -> tuple[str, ...]:
    from dashboard.quantity import NOTHING  # noqa: PLC0415 - heavy for `--help`

    place = "MIG" if gpu["parent"] else "" if gpu["index"] is None else str(gpu["index"])
    told = (
        _state(gpu),
        f"{place} {gpu['gpu_uuid'][:_SHORT]}".strip(),
        gpu["node"] or NOTHING,
        _held(gpu),
        _memory(gpu),
        NOTHING if gpu["power_w"] is None else f"{gpu['power_w']:.0f} W",
        ", ".join(sorted(_whom(each) for each in gpu["serves"])) or NOTHING,
        ", ".join(map(_words, gpu["missing"])) or NOTHING,
    )
    return tuple(map(_plain, told))


def _state(gpu: Any) -> str:
    if gpu["up"] is None:
        return "not observed"
    if not gpu["up"]:
        return f"DOWN {_words(gpu['reason'])}".strip()
    return "straggler" if gpu["stragglers"] else "up"


def _held(gpu: Any) -> str:
    from dashboard.quantity import NOTHING, percent  # noqa: PLC0415

    share = gpu["throttle"]["share"]
    if share is None:
        return NOTHING
    worst = sorted(share.items(), key=lambda each: (-each[1], each[0]))
    told = [f"{_words(cause)} {percent(part)}" for cause, part in worst if part >= _SLACK]
    return ", ".join(told) or "no"


def _memory(gpu: Any) -> str:
    from dashboard.quantity import NOTHING, percent  # noqa: PLC0415

    used, total = gpu["memory_used_bytes"], gpu["memory_total_bytes"]
    return NOTHING if used is None or not total else percent(used / total)


def _pool(pool: Any) -> str:
    from dashboard.quantity import percent  # noqa: PLC0415

    names = (pool["labels"].get(name, "") for name in ("service", "pool", "role"))
    who = " ".join(name for name in names if name) or "without a name"
    room, energy = pool["headroom"], pool["energy"]
    told = [f"{who}: {_many(pool['gpus'], 'GPU')}, {_many(pool['replicas'], 'replica')}"]
    if room is not None:
        told.append(
            f"bound by {_words(room['resource'])}, P95 {percent(room['used'])}, "
            f"{room['gpus_left']:.1f} GPUs left"
        )
    for name in ("prompt", "output"):
        price = energy and energy[f"joules_per_{name}_token"]
        if price is not None:
            told.append(f"{price:.3g} J per {name} token")
    if pool["missing"]:
        told.append(f"not told: {', '.join(map(_words, pool['missing']))}")
    return _plain("; ".join(told))


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _wedged(replica: Any) -> str:
    told = [*replica["evidence"], *(f"but {each}" for each in replica["contra"])]
    if replica["missing"]:
        told.append(f"not told: {', '.join(replica['missing'])}")
    return _plain(f"{replica['state']}: {_whom(replica['labels'])}: {'; '.join(told)}")


def _whom(labels: Mapping[str, str]) -> str:
    return f"{labels.get('service', '')}/{labels.get('replica', '')}"


def _words(name: str) -> str:
    return name.removeprefix("gpu_").replace("_", " ")


def _plain(text: str) -> str:
    """Names are anybody's: what could move a terminal's cursor is shown as a mark."""
    return "".join(each if each.isprintable() else "�" for each in text)
