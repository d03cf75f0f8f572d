"""Receivers: one module for each kind of place that is told of alerts."""
