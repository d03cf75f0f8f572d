"""The probe: a real request from outside, every byte of its answer timed on arrival."""

__all__: list[str] = []
