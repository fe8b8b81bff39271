"""Webhook: one callback of the configuration while the node runs.

    suspended ◄──right lost── ┐
    paused    ◄──desired────  ├── verifying ──challenge passed──► running ──410──► ended
    failed    ◄──refused────  ┘       ▲  │ failed
                                      └──unverified, tries again later

Its task waits until pushes are wanted and allowed, challenges the URL, and then has a deliverer or a notifier
until something of that changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

from broker_app.base.events import (
    CALLBACK_ENDED,
    CALLBACK_FAILED,
    CALLBACK_STARTED,
    CALLBACK_SUSPENDED,
    SUBSCRIPTION_REPLACED,
    URL_UNVERIFIED,
    URL_VERIFIED,
    Event,
)
from broker_app.base.process.task_supervisor import supervised
from broker_app.base.refused import Refused
from broker_app.base.states import CALLBACK
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.webhooks import state_file
from broker_app.features.callbacks.webhooks.byte_budget import ByteBudget
from broker_app.features.callbacks.webhooks.callback import DELIVER, PAUSED, Callback
from broker_app.features.callbacks.webhooks.challenge import challenge
from broker_app.features.callbacks.webhooks.deliverer import Deliverer
from broker_app.features.callbacks.webhooks.durable_subscription import DurableSubscriptions
from broker_app.features.callbacks.webhooks.host import Host, Hosts
from broker_app.features.callbacks.webhooks.notifier import Notifier
from broker_app.features.callbacks.webhooks.push_log import PushLog
from broker_app.features.callbacks.webhooks.push_totals import PushTotals
from broker_app.features.callbacks.webhooks.sender import Sender
from broker_app.features.callbacks.webhooks.state_file import StateFile
from broker_app.features.callbacks.webhooks.verdict import retry_delay_s
from broker_app.peers.http_client.exchange import Poster

PAUSED_STATE, SUSPENDED, VERIFYING, UNVERIFIED, RUNNING, ENDED, FAILED = CALLBACK
#: seconds between attempts: to pass the challenge (first, longest), and to subscribe again
_CHALLENGE_S: Final = (5.0, 600.0)
_SUBSCRIBE_S: Final = 10.0
#: seconds after which it is looked again whether an obstacle is gone
_LOOK_S: Final = 60.0


class Notify(Protocol):
    """Takes an event of a callback with its fields."""

    def __call__(self, name: str, event: Event, **fields: object) -> None: ...


class WebhookEnvironment(NamedTuple):
    """The parts that all webhooks of a node share.

    `source` names the broker in CloudEvents, `origin` in the handshake; `confirm_url` is the address at which
    receivers agree later, with {name} and {token}, or empty. `refusal` returns the reason why the owner of a
    callback may not receive its messages, or an empty text."""

    engine: Engine
    requests: EngineClient
    subscriptions: DurableSubscriptions
    hosts: Hosts
    budget: ByteBudget
    totals: PushTotals
    poster: Callable[[], Poster]
    states: StateFile
    source: str
    origin: str
    confirm_url: str
    refusal: Callable[[Callback], str]
    notify: Notify


class Webhook:
    """The webhook of one callback. Made within the running loop; `start` it, and `stop` it in the end."""

    def __init__(self, callback: Callback, environment: WebhookEnvironment) -> None:
        self.callback = callback
        self.log = PushLog(environment.totals)
        self.state = VERIFYING
        #: why it does not run; empty when it does
        self.reason = ""
        self._env = environment
        self._sender: Sender | None = None
        self._pusher: Deliverer | Notifier | None = None
        #: arrivals that were reported together with others, by former notifiers
        self._coalesced = 0
        #: set when something about it has changed
        self._changed = asyncio.Event()
        #: the reason why the pusher has to end, if it has
        self._broken = ""
        #: failed challenges in a row, and when the next one is due, by the loop's monotonic clock
        self._failures = 0
        self._challenge_at = 0.0
        #: of the request by which the receiver may agree
        self._token = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def host(self) -> Host:
        """Its receiver."""
        return self._env.hosts.of(self.callback.owner, self.callback.url)

    @property
    def in_flight(self) -> int:
        """Pushes without an answer."""
        return self._pusher.in_flight if self._pusher is not None else 0

    @property
    def coalesced(self) -> int:
        """Arrivals that were reported together with an earlier one."""
        now = self._pusher.coalesced if isinstance(self._pusher, Notifier) else 0
        return self._coalesced + now

    @property
    def sender(self) -> Sender:
        """Sends its pushes."""
        if self._sender is None:
            self._sender = Sender(self.callback, self._env.poster(), self.log)
        return self._sender

    def start(self) -> None:
        """Begin."""
        name = f"callback {self.callback.name}"
        self._task = asyncio.create_task(supervised(name, self._run), name=name)

    def configure(self, callback: Callback) -> None:
        """Apply a changed configuration."""
        former, self.callback = self.callback, callback
        if self._sender is not None:
            self._sender.callback = callback
        if (former.url, former.secret) != (callback.url, callback.secret):
            self._failures, self._challenge_at = 0, 0.0
        self.check()

    def check(self) -> None:
        """Look again whether it is wanted and allowed."""
        self._changed.set()

    def push_now(self) -> None:
        """Try again now what waits for its next attempt, also after the receiver has ended it."""
        if self._env.states.get(self.callback) == state_file.ENDED:
            self._env.states.put(self.callback, "")
        self._challenge_at = 0.0
        self.host.reset()
        if self._pusher is not None:
            self._pusher.retry()
        self.check()

    def confirm(self, token: str) -> bool:
        """The receiver agrees; False if this is not what it was asked for."""
        if not self._token or not secrets.compare_digest(token.encode(), self._token.encode()):
            return False
        self._verified()
        self.check()
        return True

    async def stop(self) -> None:
        """End in good order: what is on its way may be answered yet."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # ------------------------------------------------------------------ its life

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            obstacle = await self._obstacle()
            if obstacle is not None:
                self._enter(*obstacle)
                await self._wait(_LOOK_S)
            elif self._env.states.get(self.callback) != state_file.VERIFIED:
                await self._verify()
            else:
                await self._push()

    async def _obstacle(self) -> tuple[str, str] | None:
        """The state in which nothing is pushed, and the reason; None if nothing stands against it."""
        callback = self.callback
        if callback.config_error:
            return FAILED, callback.config_error
        if refusal := self._env.refusal(callback):
            return SUSPENDED, refusal
        try:
            lost = await self._env.subscriptions.align(callback)
        except Refused as refused:
            return FAILED, refused.detail
        if lost:
            self._env.notify(callback.name, SUBSCRIPTION_REPLACED, messages=lost)
        if callback.desired == PAUSED:
            return PAUSED_STATE, ""
        if self._env.states.get(callback) == state_file.ENDED:
            return ENDED, self.reason or "its receiver has ended it; `mom callback push` starts it again"
        return None

    async def _verify(self) -> None:
        """Challenge the URL, or wait until it is time for another attempt."""
        pause_s = self._challenge_at - time.monotonic()
        if pause_s > 0:
            await self._wait(pause_s)
            return
        if self.state != UNVERIFIED:
            self._enter(VERIFYING)
        env, callback = self._env, self.callback
        self._token = self._token or secrets.token_urlsafe(24)
        address = {"name": quote(callback.name, safe=""), "token": self._token}
        confirmation = env.confirm_url.format(**address)
        result = await challenge(self.sender, env.origin, env.source, confirmation)
        if self.callback is not callback or env.states.get(callback) == state_file.VERIFIED:
            return
        if result.passed:
            self._verified()
            return
        self._failures += 1
        self._challenge_at = time.monotonic() + retry_delay_s(self._failures, *_CHALLENGE_S)
        self._enter(UNVERIFIED, result.detail)

    def _verified(self) -> None:
        self._failures, self._token = 0, ""
        self._env.states.put(self.callback, state_file.VERIFIED)
        self._env.notify(self.callback.name, URL_VERIFIED)

    async def _push(self) -> None:
        """Push until that is not wanted or allowed any more, or needs another subscription."""
        callback, self._broken = self.callback, ""
        self._enter(RUNNING)
        self._pusher = pusher = self._make_pusher(callback)
        pusher.start()
        try:
            while not self._has_to_end(callback):
                await self._changed.wait()
                self._changed.clear()
        finally:
            # It is ended also when this task is cancelled, which must not lose answers that come yet.
            await _finish(pusher.stop())
            self._coalesced, self._pusher = self.coalesced, None
        if self._broken and self.state == RUNNING:
            self._enter(FAILED, self._broken)
            await self._wait(_SUBSCRIBE_S)

    def _make_pusher(self, callback: Callback) -> Deliverer | Notifier:
        env, host = self._env, self._env.hosts.of(callback.owner, callback.url)
        source = f"{env.source}{callback.address}"
        if callback.mode == DELIVER:
            return Deliverer(
                *(callback, env.engine, host, self.sender, env.budget, env.totals, source),
                *(self._ended, self._lost),
            )
        return Notifier(callback, env.engine, env.requests, host, self.sender, source, self._ended)

    def _has_to_end(self, started_with: Callback) -> bool:
        callback = self.callback
        return bool(
            self._broken
            or callback.desired == PAUSED
            or not callback.consumes_like(started_with)
            or callback.config_error
            or self._env.states.get(callback) != state_file.VERIFIED
            or self._env.refusal(callback)
        )

    def _ended(self, detail: str) -> None:
        if self.state != ENDED:
            self._env.states.put(self.callback, state_file.ENDED)
            self._enter(ENDED, detail)
            self.check()

    def _lost(self, detail: str) -> None:
        self._broken = detail
        self._changed.set()

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _enter(self, state: str, reason: str = "") -> None:
        """Enter a state, which is an event unless it repeats the last one."""
        repeated = (state, reason) == (self.state, self.reason)
        self.state, self.reason = state, reason
        if not repeated and state in _EVENTS:
            self._env.notify(self.callback.name, _EVENTS[state], detail=reason)


#: states whose begin is an event
_EVENTS: Final = {
    SUSPENDED: CALLBACK_SUSPENDED,
    UNVERIFIED: URL_UNVERIFIED,
    ENDED: CALLBACK_ENDED,
    FAILED: CALLBACK_FAILED,
    RUNNING: CALLBACK_STARTED,
}


async def _finish(stopping: object) -> None:
    """Wait for the end of a coroutine, also if this task is cancelled meanwhile."""
    task = asyncio.ensure_future(stopping)  # type: ignore[call-overload]
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    task.result()
