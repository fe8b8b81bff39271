"""Troubles: why a pipe has no connection, or a flow goes no further, as a stable code and a sentence."""

from __future__ import annotations

import socket
import ssl
from typing import Final, NamedTuple

from broker_app.base import causes
from mom_client.errors import ConnectionLost, Refused
from mom_client.storeandforward import SYNC_QUEUE

#: of a pipe: where connecting came to an end, or why the connection did
CONFIG, DNS, REFUSED, UNREACHABLE, TIMEOUT, TLS, WEBSOCKET, LOGIN, HOST, PROTOCOL, LOST, ENDED = (
    "CONFIG", "DNS", "REFUSED", "UNREACHABLE", "TIMEOUT", "TLS", "WEBSOCKET", "LOGIN", "HOST", "PROTOCOL",
    "LOST", "ENDED",
)  # fmt: skip
#: of a flow
AUTH_SYNC_QUEUE, AUTH_TARGET_QUEUE, TARGET_FULL, TARGET_PAUSED, TARGET_MISSING, TOO_LARGE = (
    "AUTH_SYNC_QUEUE", "AUTH_TARGET_QUEUE", "TARGET_FULL", "TARGET_PAUSED", "TARGET_MISSING", "TOO_LARGE",
)  # fmt: skip
#: of a flow: others hold messages of the queue, nothing is answered, what was not sent is there already
HELD, STALLED, OFFSET_AHEAD = (
    "HELD", "STALLED", "OFFSET_AHEAD",
)  # fmt: skip
#: of a flow whose remote broker gave another reason
REFUSED_BY_TARGET: Final = "TARGET_REFUSED"

#: while the login is refused, each pause is twice as long as the last one: up to so many times `retry_s` and
#: seconds: attempts that continue would lock the user at the remote broker, for other bridges too
LONGEST_PAUSES: Final = 60
LONGEST_PAUSE_S: Final = 300.0
#: the longest delay that a remote broker can ask for
MAX_RETRY_AFTER_S: Final = 3600.0

#: the reason of a refused CONNECT; a foreign broker reports only that it is an error
_OF_LOGINS: Final = {
    "wrong-host": HOST,
    "not-authenticated": LOGIN,
    "not-allowed": LOGIN,
    "rate-limited": LOGIN,
    "error": LOGIN,
}
#: what follows from a problem that a MOM names
_OF_PROBLEMS: Final = {
    "queue-full": TARGET_FULL,
    "store-full": TARGET_FULL,
    "busy": TARGET_FULL,
    "paused": TARGET_PAUSED,
    "not-found": TARGET_MISSING,
    "too-large": TOO_LARGE,
}


class BridgeError(NamedTuple):
    code: str
    detail: str


def of_connecting(error: Exception, ca_file: str = "") -> BridgeError:
    """The reason why there was no connection; `error` is what `Link.open` raised."""
    if isinstance(error, Refused):
        return BridgeError(_OF_LOGINS.get(error.code, ENDED), error.detail)
    if isinstance(error, TimeoutError):
        return BridgeError(TIMEOUT, causes.NO_ANSWER)
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        trusted = ca_file or "the authorities of the system"
        untrusted = causes.UNTRUSTED_BROKER.format(authorities=trusted, why=cause.verify_message)
        return BridgeError(TLS, untrusted)
    if isinstance(cause, ssl.SSLError):
        return BridgeError(TLS, str(error))
    if isinstance(error, socket.gaierror):
        return BridgeError(DNS, causes.UNKNOWN_HOST.format(why=error.strerror))
    if isinstance(error, ConnectionRefusedError):
        return BridgeError(REFUSED, causes.NOT_LISTENING)
    if isinstance(error, ConnectionLost):
        broke = "broke the protocol" in str(error)
        return BridgeError(PROTOCOL if broke else LOST, str(error))
    if str(error).startswith("no WebSocket"):
        return BridgeError(WEBSOCKET, str(error))
    return BridgeError(UNREACHABLE, str(error) or type(error).__name__)


def pause_s(retry_s: float, refused_logins: int) -> float:
    """The delay before the next attempt when the login was refused so often in a row."""
    longest_s = max(retry_s, min(LONGEST_PAUSES * retry_s, LONGEST_PAUSE_S))
    return min(retry_s * 2.0 ** min(max(0, refused_logins - 1), 20), longest_s)


def suggested_wait_s(error: Exception) -> float:
    """The seconds that the remote broker asks to wait; 0 if it did not ask."""
    retry_after = error.problem.get("retry_after") if isinstance(error, Refused) else None
    return (
        float(min(retry_after, MAX_RETRY_AFTER_S))
        if isinstance(retry_after, (int, float)) and retry_after > 0
        else 0.0
    )


def of_loss(error: Exception) -> BridgeError:
    """The reason why a connection ended; `error` is what `Link.run` raised."""
    if isinstance(error, Refused):
        return BridgeError(LOGIN if error.code == "not-authenticated" else ENDED, error.detail)
    return of_connecting(error)


def from_refusal(refused: Refused) -> BridgeError:
    """The reason why a flow does not continue."""
    if refused.code == "not-allowed":
        about = str(refused.problem.get("destination", "")).rpartition(":")[2]
        return BridgeError(AUTH_SYNC_QUEUE if about == SYNC_QUEUE else AUTH_TARGET_QUEUE, refused.detail)
    code = str(refused.problem.get("because", refused.code))
    return BridgeError(_OF_PROBLEMS.get(code, REFUSED_BY_TARGET), refused.detail)
