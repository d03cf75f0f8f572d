"""Sidecars that read a source, normalise it to our names and seconds, and push it as OTLP."""

__all__: list[str] = []
