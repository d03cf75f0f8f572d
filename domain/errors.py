"""Errors that say where, what, and the way out.

Exception
 └─ StagewatchError    carries `where`, `problem` and `remedy`
     ├─ ConfigError    a setting that can never work
     ├─ InputError     data from outside that cannot be what it claims to be
     └─ StoreError     the store cannot do what was asked of it
"""

__all__ = ["ConfigError", "InputError", "StagewatchError", "StoreError"]


class StagewatchError(Exception):
    """Where it went wrong, what is wrong there, and what to do about it."""

    def __init__(self, problem: str, *, where: str, remedy: str) -> None:
        end = "" if problem.endswith((".", "?", "!")) else "."
        super().__init__(f"{where}: {problem}{end} {remedy}")
        self.problem = problem
        self.where = where
        self.remedy = remedy


class ConfigError(StagewatchError):
    """A setting that can never work."""


class InputError(StagewatchError):
    """Data from outside that cannot be what it claims to be."""


class StoreError(StagewatchError):
    """The store cannot do what was asked of it."""
