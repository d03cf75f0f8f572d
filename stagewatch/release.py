"""Which release this is."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]


def _installed() -> str:
    try:
        return version("stagewatch")
    except PackageNotFoundError:
        return "0+source"


VERSION = _installed()
