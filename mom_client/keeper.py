"""A connection that comes back: finds a broker, reads from it, and finds another when it is lost."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .errors import ClientError, ConnectionLost, Refused
from .failover import Failover
from .link import ErrorFrame, Link, Opener
from .stomp import AckRun, Frame, Limits
from .stomp.connection import Connection
from .unconfirmed import Unconfirmed

__all__ = ["ConnectionKeeper", "Timing"]

log = logging.getLogger("mom_client")

#: Refusals of a login that no other attempt will change.
_FINAL = frozenset(("not-authenticated", "not-allowed", "wrong-host", "unsupported-version"))


@dataclass(frozen=True)
class Timing:
    """Time limits of a client, in seconds, and whether it reconnects."""

    heart_beat_s: float
    connect_timeout_s: float
    resend_s: float
    reconnect: bool


class ConnectionKeeper:
    """Keeps one connection; each one that is established is an epoch, counted from 1.

    Calls `established` with each connection, `take` with the frames that are received, `lost` with the error
    for what belonged to a lost connection alone, and `ended` once, when there will be no connection again.
    """

    unconfirmed: Unconfirmed

    def __init__(
        self, failover: Failover, opener: Opener, hello: Mapping[str, str], timing: Timing, limits: Limits
    ) -> None:
        self._failover = failover
        self._opener = opener
        self._hello = hello
        self._timing = timing
        self._limits = limits
        self.link: Link | None = None
        self.address = ""
        self.version = "1.2"  # of the last connection
        self.epoch = 0
        self._up = asyncio.Event()  # set while there is a connection, and when there will be none again
        self._closing = False
        self._end: Exception | None = None  # why there will be no connection again
        self._task: asyncio.Task[None] | None = None
        self.established: Callable[[Link], None]
        self.take: Callable[[list[Frame | AckRun]], None]
        self.lost: Callable[[ConnectionLost], None]
        self.ended: Callable[[ClientError, bool], None]

    @property
    def connected(self) -> bool:
        """True if there is a connection now."""
        return self.link is not None and self._end is None

    async def open(self, max_unconfirmed: int) -> None:
        """Connect and log in. Raises Refused or ConnectionLost."""
        if self._task is not None:
            raise RuntimeError("this client was opened before; make another")
        self.unconfirmed = Unconfirmed(max_unconfirmed, self._timing.resend_s)
        link = await self._find_broker()
        self._establish(link)
        self._task = asyncio.create_task(self._keep_connected(link), name="mom_client")

    async def close(self) -> None:
        """Wait until the broker has processed all that was sent, and disconnect. Twice is harmless."""
        self._closing = True
        link = self.link
        if link is not None and self._end is None:
            receipt = self.unconfirmed.new_receipt()
            answer = self.unconfirmed.expect(receipt)
            link.write(link.connection.disconnect(receipt.decode()))
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(self._timing.connect_timeout_s):
                    await answer
        if self._task is not None:
            self._finish(ConnectionLost("the client was closed"))
            self._task.cancel()
            await asyncio.wait([self._task])
        if link is not None:
            await link.close()
        self.link = None

    # -- for what is sent ----------------------------------------------------------------------

    def live(self, *epochs: int) -> Link:
        """The connection there is now. Raises ConnectionLost, also when it is not that of `epochs`."""
        self.check_end()
        if self.link is None or any(epoch != self.epoch for epoch in epochs):
            raise ConnectionLost("the connection was lost")
        return self.link

    def check_end(self) -> None:
        """Raises ConnectionLost if there will be no connection again."""
        if self._end is not None:
            raise ConnectionLost(str(self._end)) from self._end

    async def wait_connected(self) -> None:
        """Raises ConnectionLost if there is no connection within `resend_s`."""
        if self.link is None and self._end is None:
            try:
                async with asyncio.timeout(self._timing.resend_s):
                    await self._up.wait()
            except TimeoutError:
                raise ConnectionLost(f"no connection for {self._timing.resend_s:g} s") from None
        self.live()

    async def wait_room(self) -> None:
        """Wait for room in the socket and among the unconfirmed."""
        if not self.unconfirmed.room.is_set():
            await self.unconfirmed.room.wait()
        if self.link is not None:
            await self.link.drain()

    # -- finding and losing brokers ------------------------------------------------------------

    async def _find_broker(self) -> Link:
        """A connection to the first broker that accepts it. Raises ConnectionLost or a final Refused."""
        reasons: dict[str, str] = {}
        timing = self._timing
        for address, delay_s in self._failover:
            await asyncio.sleep(delay_s)
            connection = Connection(heart_beat_s=(timing.heart_beat_s,) * 2, limits=self._limits)
            try:
                async with asyncio.timeout(timing.connect_timeout_s):
                    link = await Link.open(address, self._opener, connection, self._hello)
            except Refused as refused:
                if refused.code in _FINAL:
                    raise
                reasons[address] = str(refused)
            except TimeoutError:
                reasons[address] = f"no answer within {timing.connect_timeout_s:g} s"
            except (OSError, ConnectionLost) as error:
                reasons[address] = str(error) or type(error).__name__
            else:
                self.address = address
                return link
            log.info("%s: %s", address, reasons[address])
        tried = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
        raise ConnectionLost(f"no broker answers ({tried})")

    def _establish(self, link: Link) -> None:
        self._failover.connected()
        self._failover.learn(link.connection.headers.get("mom-failover", "").split(","))
        self.epoch += 1
        self.link = link
        self.version = link.connection.version
        self.established(link)
        for frame in self.unconfirmed.frames_to_resend():
            link.write(frame)
        self._up.set()

    async def _keep_connected(self, link: Link) -> None:
        """Read until the connection breaks, find another, continue."""
        try:
            while True:
                reason = await self._read_until_lost(link)
                if self._closing or not self._timing.reconnect:
                    raise reason
                log.warning("%s: %s; reconnecting", self.address, reason)
                self._establish(link := await self._find_another_broker())
        except ClientError as error:
            self._finish(error)
        except BaseException as error:
            self._finish(ConnectionLost(f"the client failed: {error!r}"))
            raise

    async def _find_another_broker(self) -> Link:
        """`_find_broker` for as long as it takes; meanwhile sends expire."""
        detail = f"no connection for {self._timing.resend_s:g} s; the message may or may not have been stored"
        expiry = asyncio.create_task(self.unconfirmed.expire(ConnectionLost(detail)))
        try:
            return await self._find_broker()
        finally:
            expiry.cancel()

    async def _read_until_lost(self, link: Link) -> ClientError:
        """The reason why the connection is lost; what belonged to it alone has failed then."""
        try:
            await link.run(self.take)
        except ErrorFrame as error:
            self.take(error.before)
            if error.receipt is not None:
                refused = Refused(error.code, error.detail, error.problem)
                self.unconfirmed.fail(error.receipt.encode(), refused)
            reason: ClientError = error
        except ConnectionLost as error:
            reason = error
        self._up.clear()
        self.link = None
        self._failover.lost(self.address)
        lost = ConnectionLost(f"the connection broke before the answer came: {reason}")
        self.unconfirmed.connection_lost(lost)
        self.lost(lost)
        await link.close()
        return reason

    def _finish(self, reason: ClientError) -> None:
        """There will be no connection again."""
        if self._end is not None:
            return
        self._end = reason
        self.unconfirmed.fail_all(reason)
        self.ended(reason, self._closing)
        self._up.set()
        self.unconfirmed.room.set()
