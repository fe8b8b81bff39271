"""The other brokers of the cluster: where they are, and the link to each.

Each broker connects to all addresses that it knows. It learns more of them from the others, so that the lists
of brokers need not be complete. Of two links to one broker, that one is kept which was dialled by the broker
whose name sorts first; both decide alike.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Final, get_args

from broker_app.base.process.task_supervisor import supervised
from broker_app.base.refused import Refused
from broker_app.base.settings.cluster_addresses import hidden
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link, is_stop
from broker_app.features.cluster.links.message_checks import is_address
from broker_app.features.cluster.report import FoundBy

log = logging.getLogger(__name__)

#: seconds between attempts to reach a broker, and in which one must answer
RETRY_S: Final = 1.0
RETRY_REFUSED_S: Final = 5.0
CONNECT_S: Final = 5.0
#: ends of a link after which there may be one at once
_MAY_RETRY: Final = ("connecting", "connection-lost", "duplicate", "timeout", "unreachable", "stopped")
#: attempts to reach a broker that only others have named
_MOST_ATTEMPTS: Final = 30
_SUREST_FIRST: Final[tuple[FoundBy, ...]] = get_args(FoundBy)


class ClusterMember:
    """Another broker: `name` is empty until it was reached."""

    def __init__(self, address: str, found_by: FoundBy) -> None:
        self.address = address
        self.found_by = found_by
        self.name = ""
        self.link: Link | None = None
        #: why there is no link
        self.reason = Refused("connecting", "it was not reached yet")
        self.since = time.time()
        #: the last one that was linked
        self.identity: f.Identity | None = None
        #: whether it is forgotten when its link ends
        self.is_leaving = False
        #: of links that have ended
        self.sent = self.received = self.returned = 0

    @property
    def is_unconfirmed(self) -> bool:
        """True if only others have named its address, and it was never linked."""
        return self.found_by == "broker" and not self.name and self.link is None

    @property
    def is_refused(self) -> bool:
        """True if one of the two brokers does not want the other."""
        return self.reason.code not in _MAY_RETRY

    @property
    def is_stopped(self) -> bool:
        """True if it has reported that it stops."""
        return is_stop(self.reason)


class Members:
    """All other brokers. `make_link` makes the protocol of a connection that this broker dials."""

    def __init__(
        self,
        own_address: str,
        addresses: tuple[str, ...],
        make_link: Callable[[], Link],
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        #: addresses that are not connected to: of this broker, and other ones of brokers that are known
        self._own = {own_address}
        self._own_address = own_address
        #: addresses that are of no use here, such as that of loopback
        self._hidden: set[str] = set()
        self._make_link = make_link
        self._tls = tls
        self._members: dict[str, ClusterMember] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_stopped = False
        self._to_dial = addresses
        #: links that this broker has dialled and that have not ended, with the address that it has used
        self._dialled: dict[Link, ClusterMember] = {}

    def start(self) -> None:
        """Connect to all that are known."""
        self.learn(self._to_dial, "static")

    async def stop(self) -> None:
        """Connect to no other broker any more."""
        self._is_stopped = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def all(self) -> list[ClusterMember]:
        """The other brokers, by name and address."""
        return sorted(self._members.values(), key=lambda member: (member.name or "~", member.address))

    def named(self, name: str) -> ClusterMember | None:
        """The broker with this name; None if it was never reached."""
        return next((one for one in self._members.values() if name and one.name == name), None)

    def links(self) -> list[Link]:
        """The links that are up."""
        return [member.link for member in self._members.values() if member.link is not None]

    def link_to(self, name: str) -> Link | None:
        """The link to the broker of this name."""
        return next((member.link for member in self._members.values() if member.name == name), None)

    def addresses(self) -> list[str]:
        """The addresses of the others, as far as this broker knows more of them than that others have named
        them."""
        return [one.address for one in self._members.values() if one.address and not one.is_unconfirmed]

    def knows(self, address: str) -> bool:
        """Return whether this broker connects to an address already, or never does."""
        return address in self._own or address in self._members or address in self._hidden

    def relist(self, former: tuple[str, ...], addresses: tuple[str, ...]) -> None:
        """Connect to the brokers of another list, and no more to those that only the `former` one has."""
        for address in set(former) - set(addresses):
            self._forget_listed(address)
        for address in addresses:
            if (member := self._members.get(address)) is not None:
                member.is_leaving = False
        self.learn(addresses, "static")

    def learn(self, addresses: tuple[str, ...] | list[str], found_by: FoundBy) -> None:
        """Connect to brokers that are not known yet."""
        for address in addresses:
            if known := self._members.get(address):
                known.found_by = min(known.found_by, found_by, key=_SUREST_FIRST.index)
            if self.knows(address) or not is_address(address) or self._is_stopped:
                continue
            if found_by != "broker":
                self._make_room()
            if len(self._members) >= f.MOST_BROKERS:
                continue
            if fault := hidden(address, self._own_address):
                self._hide(address, fault)
                continue
            self._members[address] = ClusterMember(address, found_by)
            keep = supervised(f"link to {address}", partial(self._keep, address))
            self._tasks[address] = asyncio.create_task(keep)

    def forget(self, name: str) -> None:
        """Do not connect any more to a broker that is not linked, and that was removed."""
        member = self.named(name)
        if member is not None and member.link is None:
            self._forget_listed(member.address)

    def _forget_listed(self, address: str) -> None:
        """Do not connect to a broker any more; one that is linked stays until its link ends."""
        member = self._members.get(address)
        if member is None:
            return
        if member.link is not None:
            member.is_leaving = True
            return
        del self._members[address]
        if (task := self._tasks.pop(address, None)) is not None:
            task.cancel()

    def _make_room(self) -> None:
        """Forget a broker that others have named, and that is not linked, if there are too many: one that was
        never reached, or was not for the longest time."""
        if len(self._members) < f.MOST_BROKERS:
            return
        named = [one for one in self._members.values() if one.found_by == "broker" and one.link is None]
        if named:
            self._forget_listed(min(named, key=lambda one: (bool(one.name), one.since)).address)

    def _hide(self, address: str, fault: str) -> None:
        """Log once that the address of a broker is of no use here."""
        if len(self._hidden) < f.MOST_BROKERS:
            self._hidden.add(address)
            log.warning("a broker of the cluster is not connected to: %s", fault)

    # ------------------------------------------------------------------ links

    def admit(self, link: Link, own: f.Identity) -> None:
        """Keep a link whose broker is known, or raise Refused."""
        broker = link.broker
        assert broker is not None
        if broker.name == own.name:
            self._refuse_own(broker, own)
        if broker.address == own.address and own.address:
            raise _same_address(own, broker)
        member = self._member_of(broker)
        former = member.link
        if former is not None and former.broker is not None:
            same = former.broker.incarnation == broker.incarnation
            if not same:
                _check_same_place(former.broker, broker)
            first = own.name if own.name < broker.name else broker.name
            if same and (own.name if link.dials else broker.name) != first:
                raise Refused("duplicate", "another connection between these brokers is kept")
            self._unlink(member, former)
        if (named := self.named(broker.name)) is not None:
            named.name = ""  # it has moved from there
        member.link, member.identity, member.name = link, broker, broker.name
        member.since = time.time()
        if former is not None:  # once it is replaced: the address of the member stays known
            former.close(Refused("duplicate", "another connection between these brokers is kept"))

    def _refuse_own(self, broker: f.Identity, own: f.Identity) -> None:
        if broker.incarnation == own.incarnation:
            raise Refused("own-address", "this address is that of the broker itself")
        raise _same_name(own, broker)

    def _member_of(self, broker: f.Identity) -> ClusterMember:
        """The member with this name, else with this address, else a new one. A broker that has moved is the
        one at its new address, if that is known."""
        named = self.named(broker.name)
        if named is not None and (named.link is not None or broker.address not in self._members):
            return named
        if broker.address not in self._members:
            self._make_room()
            self.learn([broker.address], "broker")
        if not broker.address and len(self._members) < f.MOST_BROKERS:
            # An adopted broker: it connects to others, and none to it.
            return self._members.setdefault(f"~{broker.name}", ClusterMember("", "broker"))
        found = self._members.get(broker.address)
        if broker.address in self._hidden:
            raise Refused("cluster-mismatch", hidden(broker.address, self._own_address))
        if found is None:
            raise Refused("too-many", f"the cluster has {f.MOST_BROKERS} brokers, the maximum")
        return found

    def ended(self, link: Link, reason: Refused) -> None:
        """Note that a link has ended, or was refused."""
        dialled = self._dialled.pop(link, None)
        member = next((one for one in self._members.values() if one.link is link), None)
        if member is not None:
            self._unlink(member, link)
            member.reason, member.since = reason, time.time()
            if not member.address:
                del self._members[f"~{member.name}"]
            elif member.is_leaving:
                self._forget_listed(member.address)
        elif dialled is not None and reason.code == "own-address":
            self._forget(dialled)
        elif dialled is not None and dialled.link is None:
            if reason.code == "duplicate" and self._has_another_address(dialled, link):
                self._forget(dialled)
            else:
                dialled.reason = reason

    def _has_another_address(self, dialled: ClusterMember, link: Link) -> bool:
        """Return whether the broker that a link has reached is known by another address, and linked."""
        name = link.broker.name if link.broker is not None else ""
        return any(
            one is not dialled and one.name == name and one.link is not None for one in self._members.values()
        )

    def _unlink(self, member: ClusterMember, link: Link) -> None:
        member.link = None
        member.sent += link.consumers.sent
        member.received += link.queues.received
        member.returned += link.queues.returned

    def _forget(self, member: ClusterMember) -> None:
        """Do not connect to an address any more."""
        self._own.add(member.address)
        self._members.pop(member.address, None)

    async def _keep(self, address: str) -> None:
        """Connect to a broker whenever there is no link to it; a bounded number of times if only others have
        named it, and it cannot be reached."""
        attempts = 0
        while True:
            member = self._members.get(address)
            if member is not None and _is_absent(member, attempts):
                why = member.reason.detail
                log.info("%s, which another broker has named, is not reached: %s", address, why)
                del self._members[address]
                member = None
            if member is None:
                self._tasks.pop(address, None)
                return
            if member.link is None:
                attempts += 1
                await self._try(member)
            await asyncio.sleep(RETRY_REFUSED_S if member.is_refused else RETRY_S)

    async def _try(self, member: ClusterMember) -> None:
        host, _, port = member.address.rpartition(":")
        host = host.strip("[]")

        link = self._make_link()
        self._dialled[link] = member
        try:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: link,
                    host,
                    int(port),
                    ssl=self._tls() if self._tls is not None else None,
                    server_hostname=host if self._tls is not None else None,
                    ssl_handshake_timeout=CONNECT_S if self._tls is not None else None,
                )
        except asyncio.CancelledError:
            self._dialled.pop(link, None)
            raise
        except (OSError, TimeoutError) as error:
            self._dialled.pop(link, None)
            if member.link is None and not member.is_stopped:
                member.reason = _reason(error)
            log.debug("%s cannot be reached: %s", member.address, error)


def _is_absent(member: ClusterMember, attempts: int) -> bool:
    """Return whether a broker that only others have named has answered none of so many attempts."""
    return member.is_unconfirmed and not member.is_refused and attempts >= _MOST_ATTEMPTS


def _check_same_place(linked: f.Identity, other: f.Identity) -> None:
    """Raise Refused unless a broker is the one that is linked, started again: one that has moved comes once
    the link has ended, and of two with one name, or at one address, the first stays."""
    if linked.name != other.name:
        raise _same_address(linked, other)
    if linked.address != other.address:
        raise _same_name(linked, other)


def _same_name(one: f.Identity, other: f.Identity) -> Refused:
    return Refused(
        "cluster-mismatch",
        f"imq.brokerid: two brokers have the name {one.name!r}, at {one.address} and {other.address}; "
        "start one of them with another --name and another data directory",
    )


def _same_address(one: f.Identity, other: f.Identity) -> Refused:
    return Refused(
        "cluster-mismatch",
        f"imq.cluster.hostname (cluster_host): two brokers, {one.name!r} and {other.name!r}, have the "
        f"address {other.address}; set it at each of them to the name by which others reach it",
    )


def _reason(error: OSError | TimeoutError) -> Refused:
    """The reason why a connection was not made, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(
            "tls-failed",
            f"its certificate is not accepted: {error.verify_message}; set tls_ca at each broker to the "
            "authorities of all of them",
        )
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).lower().replace("_", " ")
        return Refused(
            "tls-failed", f"it does not speak TLS ({reason}); set cluster_transport to tls at each broker"
        )
    return Refused("unreachable", error.strerror or str(error) or f"it did not answer within {CONNECT_S:g} s")
