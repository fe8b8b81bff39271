"""Errors of the data source. Each begins with a code in brackets, which stays the same in all versions, and
shows how to fix what happened."""

from __future__ import annotations

from datetime import UTC, datetime


class MomError(Exception):
    """Base of all errors of the data source; `code` is for programs."""

    code = "MOM"

    def __init__(self, text: str) -> None:
        super().__init__(f"[{self.code}] {text}")


class InvalidOption(MomError):
    """An option, or a column of the schema, is wrong."""

    code = "INVALID_OPTION"


class DataLoss(MomError):
    """Positions that were to be read are not in the journal any more."""

    code = "DATA_LOSS"


class JournalReplaced(MomError):
    """The journal is not the one whose positions the query knows."""

    code = "JOURNAL_REPLACED"


class JournalUnreadable(MomError):
    """The journal is damaged, or was written by another version."""

    code = "JOURNAL_UNREADABLE"


class BrokerUnreachable(MomError):
    """The broker, or its journal, did not answer; trying again may help."""

    code = "BROKER_UNREACHABLE"


class AccessDenied(MomError):
    """The credential is missing, wrong, or does not permit to read the journal."""

    code = "ACCESS_DENIED"


class RowsRefused(MomError):
    """The broker refused rows, and would refuse them again."""

    code = "ROWS_REFUSED"


class NoRoom(MomError):
    """A queue, or the broker, has no room for the rows of a batch."""

    code = "NO_ROOM"


class StagesLost(MomError):
    """The broker does not have the staged rows of a batch any more; the batch has to be written again."""

    code = "STAGES_LOST"


def rfc3339(time_us: int) -> str:
    """A time in µs since 1970 as text, in UTC."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
