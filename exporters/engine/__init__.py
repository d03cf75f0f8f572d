"""Inference engines as sources: their `/metrics` pages become our counters, gauges and pairs."""

__all__: list[str] = []
