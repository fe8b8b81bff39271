"""Errors that are answered to clients."""

from __future__ import annotations


class Refused(Exception):
    """A command that was understood and refused.

    `code` is stable (a problem type of docs/protocol.md); `detail` is a sentence for a person; `facts` are
    further members of the problem.
    """

    def __init__(self, code: str, detail: str, **facts: object) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.facts = facts


def internal() -> Refused:
    """The error that a client receives for an internal error of the broker."""
    return Refused("internal", "internal error of the broker; its log has the details")
