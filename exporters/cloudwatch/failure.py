"""Why a call gave nothing."""

__all__ = ["CallError", "ThrottledError"]


class CallError(Exception):
    """`reason` is for counters; `retryable` ones may succeed when they are tried again."""

    def __init__(self, reason: str, problem: str, *, retryable: bool = False) -> None:
        super().__init__(problem)
        self.reason = reason
        self.problem = problem
        self.retryable = retryable


class ThrottledError(CallError):
    """AWS says: too fast."""

    def __init__(self, problem: str) -> None:
        super().__init__("throttled", problem, retryable=True)
