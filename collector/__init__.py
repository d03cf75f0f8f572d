"""OTLP in, a store that adds, and one door out."""
