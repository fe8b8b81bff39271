"""The processor time of processes that another program has forked for this one.

To the kernel they are children of that program, and their time is not this process's.
"""


class ForkedTime:
    """`running` are those that have not ended, as far as this process knows; `ended_s` are the seconds of
    those that have."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.ended_s = 0.0

    def begin(self, pid: int) -> None:
        self.running.add(pid)

    def end(self, pid: int, seconds: float) -> None:
        self.running.discard(pid)
        self.ended_s += seconds


FORKED_TIME = ForkedTime()
