"""Where recordings lie: our own in the tree, public material beside it."""

from pathlib import Path

__all__ = ["RECORDED", "ROOT", "SHARED"]

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "recorded"
SHARED = ROOT.parent / "shared"
