"""Discovery by multicast: announces this broker to a group, and hears the announcements of others."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from broker_app.base.log_limit import RareLog
from broker_app.base.process.task_supervisor import TaskSupervisor
from broker_app.base.refused import Refused
from broker_app.base.settings.discovery_uris import MulticastGroup, MulticastSettings
from broker_app.features.cluster.discovery.announcements import MOST_BYTES, Announcement, Freshness, Seal
from broker_app.features.cluster.report import DiscoveryReport

log = logging.getLogger(__name__)

#: seconds between two announcements
ANNOUNCE_S: Final = 1.0
#: datagrams of a group that are read in a second; the kernel drops the rest
MOST_PER_SECOND: Final = 500
_AT_ONCE: Final = 50
#: seconds without an announcement after which a group is joined again: its interface may have been replaced
_SILENT_S: Final = 30.0
#: seconds between two lines of the log of one kind, since strangers decide how often it happens
_QUIET_S: Final = 60.0
#: routers pass nothing of it on
_TTL: Final = 1


class Multicast:
    """Sends announcements, and calls `found` with the name and the address of each broker that is heard."""

    def __init__(
        self,
        settings: MulticastSettings,
        broker: str,
        address: str,
        incarnation: str,
        secret: str,
        found: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._address = address
        self._incarnation = incarnation
        self._secret = secret
        self._found = found
        self._tasks = TaskSupervisor()
        self._parts: list[_Announcer | _Listener] = []

    async def start(self) -> None:
        """Begin to announce and to listen."""
        seal = await asyncio.to_thread(Seal, self._secret)
        if self._settings.announces is not None:
            announcer = _Announcer(self._settings.announces, seal, self._announcement)
            self._parts.append(announcer)
            self._tasks.start("announcements of this broker", announcer.run)
        for group in self._settings.listens:
            listener = _Listener(group, seal, self._heard)
            self._parts.append(listener)
            self._tasks.start(f"announcements in {group.host}", listener.run)

    async def stop(self) -> None:
        """Send and hear nothing more."""
        await self._tasks.stop()

    def report(self) -> list[DiscoveryReport]:
        """The groups in which this broker is announced, or hears others."""
        errors: dict[str, str] = {}
        for part in self._parts:
            place = _place(part.group)
            errors[place] = errors.get(place) or part.error
        return [DiscoveryReport(way="multicast", place=place, error=error) for place, error in errors.items()]

    def _announcement(self, group: MulticastGroup, time_ms: int) -> Announcement:
        return Announcement(group.name, self._broker, self._address, self._incarnation, time_ms)

    def _heard(self, announcement: Announcement) -> None:
        if announcement.incarnation != self._incarnation:
            self._found(announcement.broker, announcement.address)


class _Announcer:
    """Announces this broker to a group each second, also after its network has been away."""

    def __init__(
        self,
        group: MulticastGroup,
        seal: Seal,
        make: Callable[[MulticastGroup, int], Announcement],
    ) -> None:
        self.group = group
        #: why it does not work now; empty while it does
        self.error = ""
        self._seal = seal
        self._make = make
        self._failures = _rare()
        self._last_ms = 0

    async def run(self) -> None:
        while True:
            try:
                with _sender(self.group) as sender:
                    while True:
                        sender.sendto(self._datagram(), (self.group.host, self.group.port))
                        self.error = ""
                        await asyncio.sleep(ANNOUNCE_S)
            except OSError as error:
                self.error = _reason(error)
                self._failures.log(
                    "this broker cannot be announced to %s: %s", _place(self.group), self.error
                )
                await asyncio.sleep(ANNOUNCE_S)

    def _datagram(self) -> bytes:
        """The next announcement: later than the one before, whatever the clock does."""
        self._last_ms = max(self._last_ms + 1, round(time.time() * 1000))
        return self._seal.signed(self._make(self.group, self._last_ms))


class _Listener:
    """Hears the announcements in a group, however much is sent to it."""

    def __init__(
        self,
        group: MulticastGroup,
        seal: Seal,
        heard: Callable[[Announcement], None],
    ) -> None:
        self.group = group
        #: why it does not work now; empty while it does
        self.error = ""
        self._seal = seal
        self._heard = heard
        self._failures = _rare()
        #: by code
        self._refusals: defaultdict[str, RareLog] = defaultdict(_rare)
        self._freshness = Freshness()
        self._heard_at = 0.0

    async def run(self) -> None:
        while True:
            try:
                with _receiver(self.group) as receiver:
                    self.error = ""
                    await self._listen(receiver)
            except OSError as error:
                self.error = _reason(error)
                self._failures.log("announcements in %s cannot be heard: %s", _place(self.group), self.error)
                await asyncio.sleep(ANNOUNCE_S)

    async def _listen(self, receiver: socket.socket) -> None:
        """Take announcements until there has been none for a while."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        while loop.time() - self._heard_at < _SILENT_S:
            readable = asyncio.Event()
            loop.add_reader(receiver.fileno(), readable.set)
            try:
                async with asyncio.timeout(_SILENT_S):
                    await readable.wait()
            except TimeoutError:
                return
            finally:
                loop.remove_reader(receiver.fileno())
            for _ in range(_AT_ONCE):
                try:
                    datagram, sender = receiver.recvfrom(MOST_BYTES + 1)
                except BlockingIOError:
                    break
                self._take(datagram, sender[0])
            else:
                await asyncio.sleep(_AT_ONCE / MOST_PER_SECOND)

    def _take(self, datagram: bytes, sender: str) -> None:
        """Take a datagram of anybody."""
        try:
            announcement = self._seal.checked(datagram)
            if announcement.group != self.group.name:
                return
            self._freshness.check(announcement, time.time())
        except Refused as refused:
            self._refusals[refused.code].log(
                "an announcement of %s in %s:%d is ignored (%s): %s",
                *(sender, self.group.host, self.group.port, refused.code, refused.detail),
            )
            return
        self._heard_at = asyncio.get_running_loop().time()
        self._heard(announcement)


def _rare() -> RareLog:
    """A log for what strangers or the network cause again and again."""
    return RareLog(log, logging.WARNING, every_s=_QUIET_S)


def _sender(group: MulticastGroup) -> socket.socket:
    """A socket that sends to a group, on the segment of one network interface. Raises OSError."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sender.setblocking(False)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, _TTL)
        # There may be other brokers on this machine.
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if group.interface:
            interface = socket.inet_aton(group.interface)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
    except OSError:
        sender.close()
        raise
    return sender


def _receiver(group: MulticastGroup) -> socket.socket:
    """A socket that receives what is sent to a group. Raises OSError."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        receiver.setblocking(False)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # several brokers of one machine
        receiver.bind((group.host, group.port))
        membership = socket.inet_aton(group.host) + socket.inet_aton(group.interface or "0.0.0.0")
        receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError:
        receiver.close()
        raise
    return receiver


def _place(group: MulticastGroup) -> str:
    return f"{group.host}:{group.port}"


def _reason(error: OSError) -> str:
    return f"{error.strerror or error}; ?networkInterface=ADDRESS names the network interface to use"
