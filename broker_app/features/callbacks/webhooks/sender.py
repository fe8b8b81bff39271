"""The sender of one callback: it makes a request of an event, signs and sends it, and judges the answer."""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.features.callbacks.webhooks import cloud_event, verdict
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.cloud_event import Event
from broker_app.features.callbacks.webhooks.push_log import LoggedPush, PushLog
from broker_app.features.callbacks.webhooks.signature import signature_headers
from broker_app.features.callbacks.webhooks.verdict import PushVerdict
from broker_app.peers.http_client.exchange import HttpAnswer, HttpRequest, Poster, Unanswered


class Attempt(NamedTuple):
    """A request, and its answer or the reason why there is none."""

    request: HttpRequest
    answer: HttpAnswer | None
    verdict: PushVerdict
    seconds: float


class Sender:
    """Sends the pushes of `callback`, which may be replaced while it runs."""

    def __init__(self, callback: Callback, poster: Poster, log: PushLog) -> None:
        self.callback = callback
        self._poster = poster
        self._log = log

    async def push(self, event: Event, attempt: int) -> PushVerdict:
        """Push an event, and keep the outcome in the log."""
        began_s = time.time()
        done = await self.try_once(event, attempt)
        outcome, status, detail, *_ = done.verdict
        self._log.note(
            LoggedPush(
                round(began_s * 1000), event.id, attempt, outcome, status, round(done.seconds, 4), detail
            )
        )
        return done.verdict

    async def try_once(self, event: Event, attempt: int = 1) -> Attempt:
        """Push an event; nothing is kept."""
        request = await in_thread_if_large(len(event.data), partial(self._request, event, attempt))
        began = time.monotonic()
        try:
            answer = await self._poster.send(request)
        except Unanswered as error:
            return Attempt(request, None, verdict.of_silence(error), time.monotonic() - began)
        return Attempt(request, answer, verdict.of_answer(answer), time.monotonic() - began)

    async def ask(self, method: str, headers: tuple[tuple[str, str], ...]) -> HttpAnswer:
        """The answer to a request without a body. Raises Unanswered."""
        callback = self.callback
        request = HttpRequest(method, callback.url, headers + self._authorization, b"", callback.timeout_s)
        return await self._poster.send(request)

    def _request(self, event: Event, attempt: int) -> HttpRequest:
        callback, now_s = self.callback, time.time()
        headers, body = cloud_event.request_of(event, callback, attempt)
        signed = signature_headers(event.id, now_s, body, callback.secrets_at(now_s))
        return HttpRequest(
            "POST", callback.url, (*headers, *signed, *self._authorization), body, callback.timeout_s
        )

    @property
    def _authorization(self) -> tuple[tuple[str, str], ...]:
        given = self.callback.authorization
        return (("authorization", given),) if given else ()
