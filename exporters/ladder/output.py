"""Where a measurement goes: files by their ending, each written whole or not at all."""

import json
import os
from pathlib import Path

from domain.errors import ConfigError
from exporters.ladder.document import document
from exporters.ladder.measurement import Measurement
from exporters.ladder.page import page
from exporters.ladder.table import as_csv

__all__ = ["ENDINGS", "as_json", "check", "write"]

ENDINGS = (".html", ".json", ".csv")


def check(path: Path) -> Path:
    """Refused before anything is measured, not after an hour of it."""
    if path.suffix not in ENDINGS:
        raise ConfigError(
            f"{path.suffix or 'a name without ending'} is no kind of report",
            where=f"--out {path}",
            remedy=f"Use a name that ends in {', '.join(ENDINGS)}.",
        )
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or path.is_dir():
        raise ConfigError(
            "cannot be written there",
            where=f"--out {path}",
            remedy="Name a file in a folder that exists and is yours.",
        )
    return path


def as_json(measurement: Measurement) -> str:
    return json.dumps(document(measurement), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write(measurement: Measurement, path: Path) -> None:
    """Beside it first, then in its place."""
    makers = {".html": page, ".json": as_json, ".csv": as_csv}
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(makers[path.suffix](measurement), encoding="utf-8")
    beside.replace(path)
