"""Runs the benchmarks one after the other and ends with how many kept their bar."""

import importlib
import sys

NAMES = (
    "accuracy",
    "ingest",
    "own_traces",
    "rows",
    "windows",
    "parse",
    "coarse",
    "objectives",
    "tick",
    "page",
    "sidecar",
    "gpu",
    "gpu_page",
    "pages",
    "paint",
    "viewers",
    "review",
)


def main(names: list[str]) -> int:
    failed = []
    for name in names or NAMES:
        print(f"\n== {name}", flush=True)
        if importlib.import_module(f"benchmarks.{name}").main():
            failed.append(name)
    print(f"\n{len(names or NAMES) - len(failed)} bars kept, {len(failed)} missed {failed or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
