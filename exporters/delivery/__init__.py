"""Exports on their way to the collector: kept on disk, sent in order, dropped only when counted."""

__all__: list[str] = []
