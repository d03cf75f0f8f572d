"""A load test from outside: steps of concurrency, and what each of them does to the people waiting."""

__all__: list[str] = []
