"""Speeds and errors, each as a ratio in one run: `python -m benchmarks [NAME …]`."""
