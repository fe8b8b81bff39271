"""Announcements of a broker by multicast, signed with the secret of the cluster. No I/O.

Anybody on a network segment can send to a multicast group, and hear what is sent to it. So an announcement
proves that its broker has the secret, is valid for a short time, and is taken once. The key is made of the
secret by scrypt: who hears announcements could otherwise try many secrets a second.

    datagram = mark, HMAC-SHA-256 of the rest (32 bytes), the announcement in MessagePack
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import msgspec

from broker_app.base.refused import Refused

#: bytes of a datagram
MOST_BYTES: Final = 1_024
#: seconds for which an announcement is valid, and by which the clocks of brokers may differ
VALID_S: Final = 30.0
#: brokers that are heard at a time
_MOST_BROKERS: Final = 1_000

_MARK: Final = b"MOM\x01"
_MAC_BYTES: Final = 32
_SALT: Final = b"announcements of brokers"


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """A broker of a group of this name, and its address for the others. `incarnation` is another one after
    each start; of each, `time_ms` grows from one announcement to the next."""

    group: str
    broker: str
    address: str
    incarnation: str
    time_ms: int


class Seal:
    """Signs announcements, and checks their signatures. Making one takes a while."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.scrypt(secret.encode(), salt=_SALT, n=2**14, r=8, p=1, dklen=32)

    def signed(self, announcement: Announcement) -> bytes:
        """The datagram of an announcement."""
        content = msgspec.msgpack.encode(announcement)
        return _MARK + self._mac(content) + content

    def checked(self, datagram: bytes) -> Announcement:
        """The announcement in a datagram. Raises Refused if it is not one of a broker with the secret."""
        if len(datagram) > MOST_BYTES or not datagram.startswith(_MARK):
            raise Refused("protocol-error", "the datagram is not that of a broker")
        mac, content = datagram[len(_MARK) :][:_MAC_BYTES], datagram[len(_MARK) + _MAC_BYTES :]
        if not hmac.compare_digest(mac, self._mac(content)):
            raise Refused(
                "unauthorized",
                "it is not signed with the secret of this cluster: it is of another cluster, which should "
                "use another address of multicast, or of a stranger who poses as a broker",
            )
        try:
            return msgspec.msgpack.decode(content, type=Announcement)
        except msgspec.MsgspecError as error:
            raise Refused("protocol-error", "the announcement is that of another version of MOM") from error

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")


class Freshness:
    """Refuses announcements that are too old, or that have been heard before."""

    def __init__(self) -> None:
        #: when the last announcement of each incarnation was sent, in ms
        self._last: dict[str, int] = {}

    def check(self, announcement: Announcement, now_s: float) -> None:
        """Take an announcement once. Raises Refused."""
        late_s = now_s - announcement.time_ms / 1000
        if abs(late_s) > VALID_S:
            raise Refused(
                "expired",
                f"it is {abs(late_s):.0f} s {'old' if late_s > 0 else 'in the future'}: it was sent again by "
                f"a stranger, or the clock of broker {announcement.broker} differs from that of this one by "
                f"more than {VALID_S:.0f} s",
            )
        last = self._last.get(announcement.incarnation)
        if last is not None and announcement.time_ms <= last:
            raise Refused("repeated", "it was heard before: a stranger sends it again")
        if last is None and len(self._last) >= _MOST_BROKERS:
            self._forget_old(now_s)
            if len(self._last) >= _MOST_BROKERS:
                raise Refused("too-many", f"{_MOST_BROKERS:,} brokers announce themselves, the maximum")
        self._last[announcement.incarnation] = announcement.time_ms

    def _forget_old(self, now_s: float) -> None:
        """Forget brokers whose last announcement is no longer valid."""
        oldest = (now_s - VALID_S) * 1000
        self._last = {one: time_ms for one, time_ms in self._last.items() if time_ms >= oldest}
