"""What can go wrong with one page: the whole scrape, or one family of it.

InputError
 ├─ ScrapeError     nothing of the page can be used; `reason` is a short word for a label
 └─ FamilyError    one family contradicts itself; the others are kept
"""

from domain.errors import InputError

__all__ = ["FamilyError", "ScrapeError"]


class ScrapeError(InputError):
    """A scrape that gave nothing usable, and why in one word."""

    def __init__(self, reason: str, problem: str, *, where: str, remedy: str) -> None:
        super().__init__(problem, where=where, remedy=remedy)
        self.reason = reason


class FamilyError(InputError):
    """A family whose numbers cannot all be true."""
