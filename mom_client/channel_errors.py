"""The errors of message channels: each has the name of its code in Berkeley DB."""

from typing import Final

from .errors import ClientError, Refused

__all__ = [
    "DB_BUFFER_SMALL",
    "DB_KEYEMPTY",
    "DB_NOSERVER",
    "DB_REP_UNAVAIL",
    "DB_TIMEOUT",
    "EINVAL",
    "ChannelClosed",
    "ChannelError",
    "error_of",
]


class ChannelError(ClientError):
    """Base of the errors of channels; `code` is the name in Berkeley DB."""

    code = ""

    def __init__(self, detail: str) -> None:
        super().__init__(f"{self.code}: {detail}")
        self.detail = detail


class EINVAL(ChannelError):
    """A call that is never allowed: an unknown site, a channel before the start, a second answer."""

    code = "EINVAL"


class ChannelClosed(EINVAL):
    """The channel was closed."""


class DB_REP_UNAVAIL(ChannelError):
    """The site cannot be reached, or there is no master now. A request may have been carried out: its
    outcome is unknown."""

    code = "DB_REP_UNAVAIL"


class DB_NOSERVER(ChannelError):
    """The site has no handler."""

    code = "DB_NOSERVER"


class DB_TIMEOUT(ChannelError, TimeoutError):
    """No answer came in time. The request may have been carried out."""

    code = "DB_TIMEOUT"


class DB_KEYEMPTY(ChannelError):
    """The handler returned without an answer."""

    code = "DB_KEYEMPTY"


class DB_BUFFER_SMALL(ChannelError):
    """The answer has several parts, and one was asked for (`multiple`)."""

    code = "DB_BUFFER_SMALL"


#: by the status of an answer, and the code of a refusal
_BY_STATUS: Final[dict[str, type[ChannelError]]] = {
    "invalid": EINVAL,
    "rep-unavail": DB_REP_UNAVAIL,
    "noserver": DB_NOSERVER,
    "timeout": DB_TIMEOUT,
    "keyempty": DB_KEYEMPTY,
    "buffer-small": DB_BUFFER_SMALL,
}


def error_of(status: str, detail: str) -> ClientError:
    """The exception for the status of an answer, or for the code of a refusal."""
    kind = _BY_STATUS.get(status)
    return kind(detail) if kind is not None else Refused(status, detail)
