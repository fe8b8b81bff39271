"""A clock that stands still until a test moves it."""


class Clock:
    """Seconds, wherever a clock is called; `now` is set by the test."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
