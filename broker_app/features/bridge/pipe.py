"""A pipe: one connection to one remote broker, shared by the flows of all queues that are forwarded there.

It is opened when a flow has something to send, opened again for as long as it takes when it is lost, and
closed when all flows sleep. Each pipe has a task of its own and shares nothing with others.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import ssl
import time
from collections.abc import Sequence
from typing import Any, Final

from broker_app.base.deadline import Deadline
from broker_app.base.events import (
    BRIDGE_CONNECTED,
    BRIDGE_DRAINING,
    BRIDGE_FAILED,
    BRIDGE_PAUSED,
    BRIDGE_RECONFIGURED,
    BRIDGE_RESTARTED,
    BRIDGE_RESUMED,
    BRIDGE_RETRYING,
)
from broker_app.base.process.task_supervisor import supervised
from broker_app.base.states import BRIDGE
from broker_app.base.system_topics import REFUSED_SUBSCRIPTION
from broker_app.engine import Engine
from broker_app.features.bridge import bridge_errors as errors
from broker_app.features.bridge.bridge_errors import BridgeError
from broker_app.features.bridge.flow import Flow, Phase
from broker_app.features.bridge.framing import LIMITS
from broker_app.features.bridge.inflight_window import PIPE_BYTES, Budget
from broker_app.features.bridge.remote import DESIRED_STATES, DRAINING, Remote
from broker_app.features.bridge.timeline import Timeline
from mom_client.connection.link import ErrorFrame, Link
from mom_client.connection.transport import Transport, open_transport, tls_context
from mom_client.errors import ConnectionLost, Refused
from mom_client.stomp import AckRun, Frame
from mom_client.stomp import frame as wire
from mom_client.stomp.connection import Connection

log = logging.getLogger(__name__)

#: for one attempt to connect, login included
CONNECT_S: Final = 10.0
#: how long the answers to what is on its way are waited for when a connection is to end
ANSWERS_S: Final = 2.0
JITTER: Final = 0.2
#: how often at most, in seconds, it is looked what time has brought
TICK_S: Final = 1.0
#: why a MOM ends a connection because of a single frame
UNREADABLE: Final = ("too-large", "too-many-headers")

#: the event of each desired state
_WANTED: Final = dict(zip(DESIRED_STATES, (BRIDGE_RESUMED, BRIDGE_PAUSED, BRIDGE_DRAINING), strict=True))

SUSPENDED, CONNECTING, RUNNING, RETRYING, FAILED = BRIDGE
#: the event of each state of a bridge that cannot connect
_FAILURES: Final = {RETRYING: BRIDGE_RETRYING, FAILED: BRIDGE_FAILED}


class Attempts:
    """The failed attempts to connect, and the delay before the next one."""

    def __init__(self) -> None:
        #: since the last connection
        self.failed = 0
        #: refused logins in a row
        self.refused_logins = 0
        #: seconds that the remote broker asked for
        self._suggested_wait_s = 0.0

    def refused(self, fault: Exception, *, is_login: bool) -> None:
        """Note why an attempt failed."""
        self.refused_logins = self.refused_logins + 1 if is_login else 0
        self._suggested_wait_s = errors.suggested_wait_s(fault)

    def login_accepted(self) -> None:
        """The next attempt need not wait longer than others."""
        self.refused_logins, self._suggested_wait_s = 0, 0.0

    def delay_s(self, retry_s: float) -> float:
        """Seconds until the next attempt, with jitter."""
        pause_s = errors.pause_s(retry_s, self.refused_logins)
        return max(self._suggested_wait_s, pause_s * random.uniform(1 - JITTER, 1 + JITTER))


class Pipe:
    """The pipe of `remote`. `sender` is what this broker calls itself there. Made within the running loop;
    `start` it, and `stop` it in the end."""

    def __init__(self, remote: Remote, sender: str, engine: Engine, timeline: Timeline) -> None:
        self.remote = remote
        self.timeline = timeline
        self.state = SUSPENDED
        #: why there is no connection, or was none lately
        self.error: BridgeError | None = None
        #: seconds since 1970, 0 for never: of the last error, and since when there is this connection
        self.error_at = 0.0
        self.connected_at = 0.0
        #: failed attempts since the last connection
        self.attempts = Attempts()
        #: which of several hosts is tried next
        self._place = 0
        #: by the address of the queue here
        self.flows: dict[str, Flow] = {}
        self._by_id: dict[str, Flow] = {}
        self._sender = sender
        self._engine = engine
        self._budget = Budget(PIPE_BYTES)
        self._numbers = itertools.count(1)
        self._deadline = Deadline(time.monotonic)
        self._link: Link | None = None
        #: set while a flow has something to send
        self._needed = asyncio.Event()
        #: set when a wait for the next attempt is to end
        self._hurry = asyncio.Event()
        #: ends the connection: with an error, or in good order (None)
        self._parting: asyncio.Future[BridgeError | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._attempt: asyncio.Task[Link] | None = None
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ what others ask for

    def start(self) -> None:
        name = f"bridge {self.remote.name}"
        self._task = asyncio.create_task(supervised(name, self._run), name=name)

    def flow(self, source: str, queue: str) -> Flow:
        """The flow of a queue here, made when there is none."""
        flow = self.flows.get(source)
        if flow is None:
            id = f"f{next(self._numbers)}"
            shared = (self.remote, self._engine, self.timeline, self._budget, self._needed.set)
            flow = Flow(source, queue, id, *shared)
            self.flows[source] = self._by_id[id] = flow
            if self._link is not None:
                flow.connected(self._link)
        return flow

    def drop(self, source: str) -> None:
        """Forget a flow whose queue is no more."""
        flow = self.flows.pop(source)
        flow.stop()
        del self._by_id[flow.id]
        self.timeline.forget(flow.queue)

    def configure(self, remote: Remote) -> None:
        """Apply a changed configuration. It reconnects only if it has to."""
        former, self.remote = self.remote, remote
        for flow in self.flows.values():
            flow.configure(remote)
        if remote.desired != former.desired:
            self.timeline.note(_WANTED[remote.desired])
        if not remote.has_same_connection(former):
            self.timeline.note(BRIDGE_RECONFIGURED)
            self._part(None)
            if self._attempt is not None:
                self._attempt.cancel()
        self.attempts.refused_logins = 0
        self._hurry.set()

    def begin_anew(self, why: str) -> None:
        """End the connection in good order, if there is one; whatever waits gets the next one at once."""
        self.timeline.note(BRIDGE_RESTARTED, detail=why)
        self._part(None)
        self._hurry.set()

    def retry(self, queue: str | None = None) -> None:
        """Try again now what waits for its next attempt: all of it, or the flow of one remote queue."""
        for flow in self.flows.values():
            if queue in (None, flow.queue):
                flow.retry()
        self._hurry.set()

    async def stop(self) -> None:
        """End in good order: what is on its way may be answered yet."""
        for flow in self.flows.values():
            flow.stop(Phase.WAITING)
        if self._link is not None:
            await self._wait_for_answers()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def foreign(self) -> bool | None:
        """True if the remote broker is no MOM; None while that is not known."""
        return None if self._link is None else "mom-bridge" not in self._link.connection.headers

    @property
    def server(self) -> str:
        """The name and version of the remote broker; empty without a connection."""
        return "" if self._link is None else self._link.connection.headers.get("server", "")

    @property
    def drained(self) -> bool:
        """True if it is draining and has no messages left."""
        depth = sum(flow.consumer.depth for flow in self.flows.values())
        return self.remote.desired == DRAINING and not depth

    # ------------------------------------------------------------------ its life

    async def _run(self) -> None:
        try:
            while True:
                await self._sleep()
                lasted_s = await self._connection()
                has_tried_all = self._place % len(self.remote.alternatives) == 0
                if self.error is not None and lasted_s < self.remote.retry_s and has_tried_all:
                    await self._wait_for_next_attempt()
        finally:
            self._lose_link()

    async def _sleep(self) -> None:
        """Until a flow has something to send."""
        while not any(flow.phase is not Phase.SUSPENDED for flow in self.flows.values()):
            self.state, self.error = SUSPENDED, None
            self._needed.clear()
            await self._needed.wait()

    async def _wait_for_next_attempt(self) -> None:
        delay_s = self.attempts.delay_s(self.remote.retry_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._hurry.wait()

    async def _connection(self) -> float:
        """Connect, and serve the flows until the connection ends; how many seconds it was there."""
        self._hurry.clear()
        if self.error is None:
            self.state = CONNECTING
        link = await self._connect()
        if link is None:
            return 0.0
        since = time.monotonic()
        error = await self._serve(link)
        if error is not None:
            self._note_error(error, RETRYING)
        return time.monotonic() - since

    async def _connect(self) -> Link | None:
        """A connection; None where there is none, or where it would be to the wrong place by now."""
        remote = self.remote
        places = remote.alternatives
        attempt = self._attempt = asyncio.create_task(self._open(places[self._place % len(places)]))
        try:
            await asyncio.wait({attempt})
        except asyncio.CancelledError:
            attempt.cancel()
            await asyncio.wait({attempt})
            raise
        if attempt.cancelled():
            return None
        try:
            link = attempt.result()
        except _WrongConfiguration as fault:
            self._note_error(BridgeError(errors.CONFIG, str(fault)), FAILED)
            return None
        except (OSError, ConnectionLost, Refused, ValueError) as fault:
            error = errors.of_connecting(fault, remote.ca_file)
            self.attempts.refused(fault, is_login=error.code == errors.LOGIN)
            self._place += 1
            self._note_error(error, RETRYING)
            return None
        self.attempts.login_accepted()
        if self.remote.has_same_connection(remote):
            return link
        await link.close()
        return None

    async def _open(self, remote: Remote) -> Link:
        if remote.config_error:
            raise _WrongConfiguration(remote.config_error)
        tls = await _trust(remote.ca_file) if remote.uses_tls else None

        async def open_by_address(address: str) -> Transport:
            return await open_transport(address, tls)

        # A foreign broker takes no notice of the latter two.
        hello = {"host": remote.host, "mom-bridge": self._sender, "mom-soft-errors": "true"}
        if remote.user:
            hello |= {"login": remote.user, "passcode": remote.password}
        async with asyncio.timeout(CONNECT_S):
            return await Link.open(remote.address, open_by_address, Connection(limits=LIMITS), hello)

    async def _serve(self, link: Link) -> BridgeError | None:
        """Serve the flows until the connection ends; why, or None when it was meant to."""
        self._link = link
        self.state, self.error, self.attempts.failed, self.connected_at = RUNNING, None, 0, time.time()
        self.timeline.note(BRIDGE_CONNECTED, detail=self.server)
        close_reason: asyncio.Future[BridgeError | None] = asyncio.get_running_loop().create_future()
        self._parting = close_reason
        reading = asyncio.create_task(self._read(link))
        try:
            for flow in list(self.flows.values()):
                flow.connected(link)
            self._tick(link)
            endings: set[asyncio.Future[Any]] = {reading, close_reason}
            await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return await self._why_lost(reading)
            why = close_reason.result()
            if why is None:
                for flow in self.flows.values():
                    flow.stop(Phase.WAITING)
                await self._wait_for_answers()
                link.write(link.connection.disconnect("parting"))
            return why
        finally:
            self._parting = None
            reading.cancel()
            self._lose_link()
            await asyncio.wait({reading})
            await link.close()

    async def _wait_for_answers(self) -> None:
        deadline = time.monotonic() + ANSWERS_S
        while any(flow.in_flight for flow in self.flows.values()) and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    def _lose_link(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._link = None
        self._budget.clear()
        for flow in self.flows.values():
            flow.disconnected()

    def _part(self, why: BridgeError | None) -> None:
        """End the connection, if there is one."""
        if self._parting is not None and not self._parting.done():
            self._parting.set_result(why)

    async def _why_lost(self, reading: asyncio.Task[None]) -> BridgeError:
        error = reading.exception()
        if isinstance(error, ErrorFrame):
            await self._take(error.before)
            self._blame(error)
        if isinstance(error, (Refused, ConnectionLost)):
            return errors.of_loss(error)
        log.error("bridge %s: %s", self.remote.name, error, exc_info=error)
        return BridgeError(errors.PROTOCOL, f"the bridge failed: {error!r}")

    def _blame(self, error: ErrorFrame) -> None:
        """Find the flow that an ERROR is about, of a foreign broker, or of a MOM that could not read a frame:
        it waits, and others continue over the next connection. Where it names no receipt, it may be about a
        flow that no message has confirmed yet."""
        if not (self.foreign or error.code in UNREADABLE):
            return
        if error.receipt is not None and self._refused(error.receipt, error):
            return
        suspects = [flow for flow in self.flows.values() if flow.probe is not None]
        if len(suspects) == 1:
            suspects[0].refused(suspects[0].probe or b"", error)
            return
        why = errors.from_refusal(error)
        for rank, flow in enumerate(suspects, start=1):
            # One by one, so that the next ERROR shows which it is.
            flow.back_off(why, self.remote.retry_s * rank)

    def _note_error(self, error: BridgeError, state: str) -> None:
        self.error, self.state, self.error_at = error, state, time.time()
        self.attempts.failed += 1
        self.timeline.note(_FAILURES[state], "", *error)

    # ------------------------------------------------------------------ what comes

    async def _read(self, link: Link) -> None:
        while True:
            await self._take(await link.received())

    async def _take(self, frames: list[Frame | AckRun]) -> None:
        self._deadline.begin()
        for frame in frames:
            await self._in_turn()
            if not isinstance(frame, Frame):
                await self._answered(frame.ids)
            elif frame.command is wire.RECEIPT:
                await self._answered((frame.headers.get("receipt-id", "").encode(),))
            elif frame.headers.get("subscription") == REFUSED_SUBSCRIPTION:
                self._refused(frame.headers.get("receipt-id"), Refused.from_frame(frame.headers, frame.body))
            else:
                self._started(frame)

    async def _answered(self, receipts: Sequence[bytes]) -> None:
        at = 0
        while at < len(receipts):
            await self._in_turn()  # a receipt may be of any flow, or of none: all are asked
            for flow in self.flows.values():
                stop = flow.answered(receipts, at) if flow.in_flight else at
                if stop > at:
                    break
            else:
                stop = at + 1  # of a flow that has started again since
            at = stop

    async def _in_turn(self) -> None:
        """Wait for the next turn of the loop if this one was long enough."""
        if self._deadline.passed:
            await asyncio.sleep(0)
            self._deadline.begin()

    def _started(self, frame: Frame) -> None:
        flow = self._by_id.get(frame.headers.get("subscription", ""))
        accepted, count = frame.headers.get("accepted", ""), frame.headers.get("count", "")
        if flow is not None and accepted.isdecimal() and count.isdecimal():
            flow.started(int(accepted), int(count))

    def _refused(self, receipt: str | None, refused: Refused) -> bool:
        """The remote broker refused one frame; False if it is of no flow."""
        flow = self._by_id.get(str(refused.problem.get("subscription")))
        if receipt is not None:
            return any(flow.refused(receipt.encode(), refused) for flow in list(self.flows.values()))
        if flow is not None:
            flow.broken(refused)
        return flow is not None

    # ------------------------------------------------------------------ time

    def _tick(self, link: Link) -> None:
        """See to what time brings, for all flows at once."""
        now, left = time.monotonic(), link.left
        flows = list(self.flows.values())
        stalled = [flow for flow in flows if flow.check(now, left)]
        if stalled:
            self._part(BridgeError(errors.STALLED, f"nothing is answered for {stalled[0].queue}"))
        elif not any(flow.phase is not Phase.SUSPENDED for flow in flows):
            self._part(None)
        else:
            remote = self.remote
            step = min(TICK_S, remote.idle_s / 4, remote.stalled_s / 4, remote.retry_s / 2)
            self._timer = asyncio.get_running_loop().call_later(step, self._tick, link)


class _WrongConfiguration(Exception):
    """The configuration of the bridge cannot work."""


async def _trust(ca_file: str) -> ssl.SSLContext:
    """The TLS context, made each time, because a file may have been replaced."""
    try:
        return await asyncio.to_thread(tls_context, ca_file or None)
    except OSError as error:
        raise _WrongConfiguration(str(error)) from error
