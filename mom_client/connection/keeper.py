"""A connection that comes back: finds a broker, reads from it, and finds another when it is lost."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from ..errors import ClientError, ConnectionLost, Refused
from ..events import CLIENT_CLOSED, LOST, MOVED, ConnectionEvent, EventKind
from ..stomp import AckRun, Frame
from ..stomp.errors import FRAME_FAULTS
from ..unconfirmed import Unconfirmed
from .link import ErrorFrame, Link
from .search import BrokerSearch, Timing

__all__ = ["ConnectionKeeper"]

log = logging.getLogger("mom_client")


async def _no_spare(address: str) -> Link | None:
    return None


class ConnectionKeeper:
    """Keeps one connection; each one that is established is an epoch, counted from 1.

    Calls `established` with each connection, `take` with the frames that are received, `refused` with the
    receipt of a frame for which the broker has ended the connection, `lost` with the error for what belonged
    only to a lost connection, `ended` once, when there will be no connection again, and `notify` with each
    event. `spare` gives an open connection after a loss, if there is one, to the address that a broker has
    named if it has.
    """

    unconfirmed: Unconfirmed

    def __init__(
        self, search: BrokerSearch, timing: Timing, notify: Callable[[ConnectionEvent], None]
    ) -> None:
        self._search = search
        self._timing = timing
        #: whether a lost connection is followed by another
        self.reconnects = timing.reconnect
        self._notify = notify
        self.link: Link | None = None
        self.address = ""
        self.version = "1.2"  # of the last connection
        self.epoch = 0
        self._up = asyncio.Event()  # set while there is a connection, and when there will be none again
        self._lost_at = 0.0  # loop time
        self._open = False  # a connection whose end was not reported yet
        self._closing = False
        self._end: ClientError | None = None  # why there will be no connection again
        self._task: asyncio.Task[None] | None = None
        #: the next connection, while the present one is being ended, and why
        self._handover: tuple[Link, str] | None = None
        self.spare: Callable[[str], Awaitable[Link | None]] = _no_spare
        self.established: Callable[[Link], None]
        self.take: Callable[[list[Frame | AckRun]], None]
        self.refused: Callable[[bytes, Refused], None]
        self.lost: Callable[[ConnectionLost], None]
        self.ended: Callable[[ClientError, bool], None]

    @property
    def connected(self) -> bool:
        """True if there is a connection now."""
        return self.link is not None and self._end is None

    @property
    def ended_with(self) -> ClientError | None:
        """The reason why there will be no connection again; None while there may be one."""
        return self._end

    def start(self, max_unconfirmed: int) -> None:
        """Connect and log in, in the background. Assumes a running loop."""
        if self._task is not None:
            self.check_end()
            raise RuntimeError("this client was opened before; make another")
        self.unconfirmed = Unconfirmed(max_unconfirmed, self._timing.resend_s)
        self._task = asyncio.create_task(self._keep_connected(), name="mom_client")

    async def open(self, max_unconfirmed: int) -> None:
        """Connect and log in. Raises Refused or ConnectionLost."""
        self.start(max_unconfirmed)
        assert self._task is not None
        try:
            await self._up.wait()
            if not self.epoch:
                await asyncio.wait([self._task])
        except asyncio.CancelledError:
            await self.close()
            raise
        if not self.epoch:
            self._task.result()
            assert self._end is not None
            raise self._end

    async def close(self) -> None:
        """Wait until the broker has processed all that was sent, and disconnect. Twice is harmless."""
        self._closing = True
        link = self.link
        if link is not None and self._end is None:
            self._report("closing", "the client is being closed")
            await self._disconnect(link)
        if self._task is not None:
            self._finish(ConnectionLost("the client was closed"))
            self._task.cancel()
            await asyncio.wait([self._task])
        for open_link in (link, self._handover[0] if self._handover is not None else None):
            if open_link is not None:
                await open_link.close()
        self.link = None
        self._report_closed("the client was closed", CLIENT_CLOSED)

    async def hand_over(self, link: Link, reason: str) -> None:
        """Continue over `link`, after the broker of the present connection has answered what it has got.

        What is sent meanwhile waits for `link`.
        """
        old = self.live()
        self._handover = link, reason
        self._report("closing", reason)
        self._up.clear()
        self.link = None
        try:
            await self._disconnect(old)
        finally:
            await old.close()

    async def _disconnect(self, link: Link) -> None:
        """Send DISCONNECT, and wait for its receipt, which confirms all frames before it."""
        receipt = self.unconfirmed.new_receipt()
        answer = self.unconfirmed.expect(receipt)
        link.write(link.connection.disconnect(receipt.decode()))
        with contextlib.suppress(ClientError, TimeoutError):
            async with asyncio.timeout(self._timing.connect_timeout_s):
                await answer

    # -- for what is sent ----------------------------------------------------------------------

    def live(self, *epochs: int) -> Link:
        """The connection there is now. Raises ConnectionLost, also when it is not that of `epochs`."""
        self.check_end()
        if self.link is None or (epochs and any(epoch != self.epoch for epoch in epochs)):
            raise ConnectionLost("the connection was lost")
        return self.link

    def check_end(self) -> None:
        """Raises ConnectionLost if there will be no connection again."""
        if self._end is not None:
            raise ConnectionLost(str(self._end)) from self._end

    @property
    def is_writable(self) -> bool:
        """True if what is sent now waits for nothing: there are a connection, and room."""
        link = self.link
        return link is not None and self._end is None and self.unconfirmed.room.is_set() and link.has_room

    async def wait_connected(self, *, sending: bool = False) -> None:
        """Raises ConnectionLost if there is none in the time that messages (`sending`), or others, wait."""
        limit_s = self._timing.resend_s if sending else self._timing.wait_s
        if self.link is None and self._end is None:
            try:
                async with asyncio.timeout(limit_s):
                    while self.link is None and self._end is None:
                        await self._up.wait()
            except TimeoutError:
                raise ConnectionLost(f"no connection for {limit_s:g} s") from None
        self.live()

    async def wait_writable(self) -> None:
        """Wait for room in the socket and among the unconfirmed.

        Raises ConnectionLost if there was no connection for as long as a send may wait.
        """
        if not self.unconfirmed.room.is_set():
            began = self._now()
            await self.unconfirmed.room.wait()
            waited, limit_s = self._now() - max(began, self._lost_at), self._timing.resend_s
            if self.link is None and self._end is None and limit_s is not None and waited >= limit_s:
                raise ConnectionLost(f"no connection for {limit_s:g} s")
        if self.link is not None:
            await self.link.drain()

    # -- finding and losing brokers ------------------------------------------------------------

    def _establish(self, link: Link, reason: str = "") -> None:
        failover = self._search.failover
        failover.connected()
        failover.learn(link.connection.headers.get("mom-failover", "").split(","))
        self.epoch += 1
        self.link = link
        self._open = True
        self.address = link.address
        self.version = link.connection.version
        self.established(link)
        for frame in self.unconfirmed.frames_to_resend():
            link.write(frame)
        self._up.set()
        if self.epoch > 1:
            self._report("reconnected", reason)

    async def _keep_connected(self) -> None:
        """Find a broker, read until the connection breaks, find another, continue."""
        try:
            link = await self._find_broker()
            self._search.failed = self._attempt_failed
            self._establish(link)
            while True:
                reason = await self._read_until_lost(link)
                if self._closing or not self.reconnects or self._is_taken_over(reason):
                    raise reason
                why = str(reason) if self._handover is None else self._handover[1]
                link = await self._next_link(reason)
                self._establish(link, why)
        except ClientError as error:
            self._finish(error)
        except BaseException as error:
            self._finish(ConnectionLost(f"the client failed: {error!r}"))
            raise

    async def _next_link(self, reason: ClientError) -> Link:
        """The connection that was prepared, a spare one, or one that is found."""
        prepared, self._handover = self._handover, None
        if prepared is not None:
            return prepared[0]
        log.warning("%s: %s; reconnecting", self.address, reason)
        active = self._search.follow(reason, self.address) if isinstance(reason, Refused) else ""
        return await self.spare(active) or await self._find_broker()

    async def _find_broker(self) -> Link:
        """Search for as long as it takes; meanwhile sends expire."""
        waited = "" if self._timing.resend_s is None else f" for {self._timing.resend_s:g} s"
        detail = f"no connection{waited}; the message may or may not have been stored"
        expiry = asyncio.create_task(self.unconfirmed.expire(ConnectionLost(detail)))
        try:
            return await self._search.find()
        except ConnectionLost as error:
            if self.epoch:
                known = ", ".join(self._search.failover.addresses)
                self._notify(ConnectionEvent("reconnect failed", known, str(error), final=True))
            raise
        finally:
            expiry.cancel()

    async def _read_until_lost(self, link: Link) -> ClientError:
        """The reason why the connection is lost; what belonged only to it has failed then."""
        try:
            await link.run(self.take)
        except ErrorFrame as error:
            self.take(error.before)
            refused = Refused(error.code, error.detail, error.problem)
            if error.receipt is not None:
                self.refused(error.receipt.encode(), refused)
            elif error.code in FRAME_FAULTS:
                self.unconfirmed.suspect(refused)
            reason: ClientError = error
        except ConnectionLost as error:
            reason = error
        self._up.clear()
        self.link = None
        self._lost_at = self._now()
        self._search.failover.lost(self.address)
        lost = ConnectionLost(f"the connection broke before the answer came: {reason}")
        self.unconfirmed.connection_lost(lost)
        self.lost(lost)
        await link.close()
        if self._handover is not None:
            self._report_closed(self._handover[1], MOVED)
        else:
            self._report_closed(str(reason), reason.code if isinstance(reason, Refused) else LOST)
        return reason

    def _is_taken_over(self, reason: ClientError) -> bool:
        """True if another client of this client-id may have connected: to connect again would end its
        connection, and so on."""
        taken_over = isinstance(reason, Refused) and reason.code == "taken-over"
        return taken_over and self._search.has_client_id(self.address)

    def _finish(self, reason: ClientError) -> None:
        """There will be no connection again."""
        if self._end is not None:
            return
        self._end = reason
        self.unconfirmed.fail_all(reason)
        self.ended(reason, self._closing)
        self._up.set()
        self.unconfirmed.room.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _attempt_failed(self, address: str, reason: str) -> None:
        self._notify(ConnectionEvent("reconnect failed", address, reason))

    def _report_closed(self, reason: str, code: str) -> None:
        if self._open:
            self._open = False
            self._report("closed", reason, CLIENT_CLOSED if self._closing else code)

    def _report(self, kind: EventKind, reason: str, code: str = "") -> None:
        self._notify(ConnectionEvent(kind, self.address, reason, code=code))
