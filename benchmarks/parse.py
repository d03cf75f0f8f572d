"""Parsing of a long vLLM page against prometheus_client's parser, in turns in one run."""

import math
import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

from exporters.engine.engines import WANTED
from exporters.engine.text import PageParser

PAGE = Path(__file__).parents[1] / "tests/recorded/vllm/overload/98-after.prom"
TARGET_BYTES = 480_000
BAR = 30
ROUNDS = 7


def long_page(target_bytes: int = TARGET_BYTES) -> str:
    """A real page whose series stand there once for each of many ranks (data parallelism)."""
    lines = PAGE.read_text().splitlines()
    by_rank = [line for line in lines if 'engine="0"' in line]
    once, more = (sum(len(line) + 1 for line in some) for some in (lines, by_rank))
    ranks = 1 + math.ceil((target_bytes - once) / more)
    written: list[str] = []
    for family, samples in groupby(lines, key=lambda line: line[:1] == "#"):
        block = list(samples)
        for rank in range(1 if family else ranks):
            written += [
                line.replace('engine="0"', f'engine="{rank}"')
                for line in block
                if rank == 0 or 'engine="0"' in line
            ]
    return "\n".join(written) + "\n"


def _seconds(parse: Callable[[], object]) -> float:
    begun = time.perf_counter()
    parse()
    return time.perf_counter() - begun


def main() -> int:
    """0 if the bar is kept."""
    page = long_page()
    body = page.encode()
    ours, everything = PageParser(WANTED.__contains__), PageParser(lambda _: True)
    ours.parse(page)
    everything.parse(page)
    times: dict[str, list[float]] = {"prometheus_client": [], "ours": [], "ours, every family": []}
    for _ in range(ROUNDS):
        times["prometheus_client"].append(
            _seconds(lambda: list(text_string_to_metric_families(body.decode())))
        )
        times["ours"].append(_seconds(lambda: ours.parse(body.decode())))
        times["ours, every family"].append(_seconds(lambda: everything.parse(body.decode())))
    samples = sum(1 for line in page.splitlines() if not line.startswith("#"))
    print(f"a page of {len(body)} bytes, {samples} samples, median of {ROUNDS} rounds in turns")
    for name, seconds in times.items():
        print(
            f"{name:20s} {len(body) / median(seconds) / 1e6:7.1f} MB/s {median(seconds) * 1e3:7.2f} ms"
        )
    ratio = median(times["prometheus_client"]) / median(times["ours"])
    kept = ratio >= BAR
    print(f"ratio {ratio:.1f} x, bar {BAR} x: {'kept' if kept else 'MISSED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
