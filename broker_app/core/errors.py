"""What the core says no with."""

from __future__ import annotations


class Refused(Exception):
    """A command that was understood and not carried out: the client asked for something it cannot have.

    `code` is stable (a problem type of docs/protocol.md); `detail` is a sentence for a person; `facts` are
    further members of the problem.
    """

    def __init__(self, code: str, detail: str, **facts: object) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.facts = facts


def internal() -> Refused:
    """What a client hears of a fault that is the broker's own."""
    return Refused("internal", "the broker failed at this, by a fault of its own; its log has the details")
