"""Errors of journals; each names the file, the position and the fix."""


def remedies(directory: object) -> str:
    """The fix of a damaged journal, for the end of a sentence."""
    return (
        f"`mom journal verify {directory}` shows what is damaged, `mom journal repair {directory}` repairs it"
    )


class JournalError(Exception):
    """Base of everything a journal raises about its storage (misuse by the caller is a ValueError)."""


class JournalInUse(JournalError):
    """Another process holds the journal's directory."""


class JournalDamaged(JournalError):
    """The journal is damaged; nothing was changed on the disk."""


class JournalFailed(JournalError):
    """A write or sync failed. The journal refuses further commits; restart and replay."""


class NoSpace(JournalFailed):
    """There is no space for what was to be written."""


class Busy(JournalFailed):
    """A file cannot be read now, for want of descriptors, memory or rights; nothing is lost, and it may be
    read soon."""


class TooManyCursors(JournalError):
    """There are as many cursors as a journal keeps."""


class NoSuchPosition(JournalError, KeyError):
    """No record is kept at this position."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"position {position} cannot be read from the journal: {why}")
        self.position = position

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr of the sentence
