"""Verdicts: what the answer to a push means for the message, for the callback and for the host."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from broker_app.base import causes
from broker_app.base.states import PUSH
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.host import (
    ALIVE,
    BROKEN,
    NO_WORKER,
    RETRY_AFTER,
    SILENT,
    UNCONNECTED,
)
from broker_app.peers.http_client import exchange
from broker_app.peers.http_client.exchange import HttpAnswer, Unanswered

#: outcomes of pushes, by which they are counted
ACCEPTED, ENDED, DELAYED, REFUSED, FAILED, TIMED_OUT, UNREACHABLE, FORBIDDEN, UNSENT = OUTCOMES = tuple(PUSH)
#: outcomes that are no attempts: the message is delivered again as it was
NO_ATTEMPTS: Final = (ENDED, UNSENT)
#: seconds for which a host is left alone when no worker sends requests
_WORKER_PAUSE_S: Final = 5.0
JITTER: Final = 0.2
#: seconds that a receiver may have a message wait, at most
LONGEST_DELAY_S: Final = 86_400.0
#: codes of failures to connect, which are not of one callback
_CONNECTING: Final = (exchange.DNS, exchange.CONNECT, exchange.TLS)
_GONE, _TOO_MANY, _UNAVAILABLE = 410, 429, 503
#: characters of an answer's body in a detail
_SHOWN: Final = 200


class PushVerdict(NamedTuple):
    """The outcome of a push. `delay_s` is the shortest time to the next attempt that the receiver asks for, 0
    if it does not; `pause_s` the time for which its host is to be left alone; `effect` is for the host."""

    outcome: str
    status: int = 0
    detail: str = ""
    delay_s: float = 0.0
    pause_s: float = 0.0
    effect: str = ""

    def retry_s(self, callback: Callback, attempts: int) -> float:
        """The time before another attempt after `attempts` failed ones: that of the callback, or a longer one
        that the receiver asks for."""
        return max(retry_delay_s(attempts, callback.retry_s, callback.max_retry_s), self.delay_s)


def of_answer(answer: HttpAnswer) -> PushVerdict:
    """The verdict on an answer."""
    status, detail = answer.status, described(answer)
    if 200 <= status < 300:
        return PushVerdict(ACCEPTED, status, "", effect=ALIVE)
    if status == _GONE:
        return PushVerdict(ENDED, status, detail, effect=ALIVE)
    delay_s = _retry_after_s(answer)
    if status in (_TOO_MANY, _UNAVAILABLE) and delay_s:
        return PushVerdict(DELAYED, status, detail, delay_s, delay_s, RETRY_AFTER)
    if status >= 500:
        return PushVerdict(FAILED, status, detail, delay_s, effect=BROKEN)
    return PushVerdict(REFUSED, status, detail, delay_s, effect=ALIVE)


def of_silence(error: Unanswered) -> PushVerdict:
    """The verdict on a push without an answer."""
    if error.code == exchange.TIMEOUT:
        return PushVerdict(TIMED_OUT, 0, error.detail, effect=SILENT)
    if error.code == exchange.ADDRESS:
        return PushVerdict(FORBIDDEN, 0, error.detail, effect=SILENT)
    if error.code == exchange.NO_WORKER:
        return PushVerdict(UNSENT, 0, error.detail, pause_s=_WORKER_PAUSE_S, effect=NO_WORKER)
    if error.code == exchange.WORKER:
        return PushVerdict(FAILED, 0, error.detail)
    effect = UNCONNECTED if error.code in _CONNECTING else BROKEN
    return PushVerdict(UNREACHABLE, 0, error.detail, effect=effect)


def retry_delay_s(attempts: int, first_s: float, longest_s: float) -> float:
    """The time before another attempt after `attempts` failed ones, with jitter."""
    delay = min(first_s * 2.0 ** min(attempts - 1, 40), longest_s)
    return delay * random.uniform(1 - JITTER, 1 + JITTER)


def described(answer: HttpAnswer) -> str:
    """An answer as one sentence."""
    if 300 <= answer.status < 400:
        where = _text(answer.headers.get("location", ""))
        return causes.REDIRECTED.format(status=answer.status, address=repr(where))
    body = _text(answer.body.decode(errors="replace"))
    sentence = causes.ANSWERED_TEXT if body else causes.ANSWERED
    return sentence.format(status=answer.status, text=body)


def _retry_after_s(answer: HttpAnswer) -> float:
    """The seconds of `Retry-After`, which may be a date; 0 without one."""
    given = answer.headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit():
        return min(float(given[:9]), LONGEST_DELAY_S)
    try:
        seconds = parsedate_to_datetime(given).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_DELAY_S)


def _text(text: str) -> str:
    """The beginning of a text of the receiver, on one line."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 4 * _SHOWN]).split())[
        :_SHOWN
    ]
