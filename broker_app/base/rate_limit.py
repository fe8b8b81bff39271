"""The rate limit of one connection: frames and bytes a second."""

from __future__ import annotations

#: the burst that is allowed, in seconds of the rate
BURST_S = 1.0


class RateLimit:
    """Two allowances that fill with time. 0 a second is no limit; time is monotonic, in seconds."""

    __slots__ = ("_bytes", "_bytes_left", "_filled", "_frames", "_frames_left")

    def __init__(self, frames: int, bytes_: int, now: float) -> None:
        self._frames, self._bytes = frames, bytes_
        self._frames_left, self._bytes_left = frames * BURST_S, bytes_ * BURST_S
        self._filled = now

    def spend(self, frames: int, bytes_: int, now: float) -> float:
        """Count what was received. Returns the seconds to read nothing more; 0.0 within the limits."""
        passed, self._filled = now - self._filled, now
        wait = 0.0
        if self._frames:
            left = min(self._frames * BURST_S, self._frames_left + passed * self._frames) - frames
            self._frames_left = left
            wait = max(wait, -left / self._frames)
        if self._bytes:
            left = min(self._bytes * BURST_S, self._bytes_left + passed * self._bytes) - bytes_
            self._bytes_left = left
            wait = max(wait, -left / self._bytes)
        return wait
