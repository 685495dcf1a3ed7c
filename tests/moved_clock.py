"""A clock that stands still until a test moves it."""

__all__ = ["MovedClock"]


class MovedClock:
    """Seconds: called as `time.time` and `time.monotonic` are."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
