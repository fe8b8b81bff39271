"""Hosts: what all callbacks of one owner to one receiver share, and what all owners do.

A receiver may serve many, and answer to each as it likes: bad answers, and pauses that it asks for, concern
only the owner whose push had that answer. That it accepts no connections concerns all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit

from broker_app.base.events import Event
from broker_app.features.callbacks.webhooks.breaker import CLOSED, HALF_OPEN, OPEN, Breaker
from broker_app.features.callbacks.webhooks.gate import Gate

#: pushes without an answer: of one owner to one host, and of all together
MAX_OF_HOST: Final = 100
MAX_OF_ALL: Final = 2_000
#: pushes that a host may have whatever others have, so that slow receivers cannot take all the room
RESERVED: Final = 2

#: the effects of a push on its host: it is alive, its answer is bad, it has none, or it accepts no
#: connection; the last two, causes of a pause, leave its breakers as they are
ALIVE, BROKEN, SILENT, UNCONNECTED, RETRY_AFTER, NO_WORKER = (
    "alive", "broken", "silent", "unconnected", "retry-after", "no-worker",
)  # fmt: skip
PAUSES: Final = (RETRY_AFTER, NO_WORKER)


class Caller(Protocol):
    """A part of a callback that pushes to a host."""

    def host_changed(self) -> None:
        """The host may be pushed to again, or no longer."""

    def room_available(self) -> None:
        """Another push may begin."""


class Room:
    """The number of all pushes without an answer, and the hosts that wait for room."""

    def __init__(self, most: int = MAX_OF_ALL) -> None:
        self.left = most
        self._waiting: dict[Host, None] = {}

    def wait(self, host: Host) -> None:
        self._waiting.setdefault(host)

    def share(self) -> None:
        """Give the room to the hosts that wait, in turn."""
        while self._waiting and self.left > 0:
            host = next(iter(self._waiting))
            del self._waiting[host]
            host.serve_waiting()


class Connections:
    """The connections of all owners to a receiver, and whether it accepts them."""

    def __init__(self, breaker: Breaker, notify: Callable[[Event, str], None]) -> None:
        self.gate = Gate(breaker, notify, self._changed)
        self.hosts: dict[Host, None] = {}
        self.in_flight = 0

    def serve_waiting(self) -> None:
        """Have callers of all owners begin pushes."""
        for host in list(self.hosts):
            host.serve_waiting()

    def _changed(self) -> None:
        for host in list(self.hosts):
            host.changed()


class Host:
    """One receiver as one owner sees it. `notify` is that of a gate."""

    def __init__(
        self,
        name: str,
        room: Room,
        connections: Connections,
        breaker: Breaker,
        notify: Callable[[Event, str], None],
    ) -> None:
        self.name = name
        self.callers: dict[Caller, None] = {}
        self.answers = Gate(breaker, notify, self.changed)
        self.connections = connections
        self._room = room
        self._in_flight = 0
        self._waiting: dict[Caller, None] = {}
        connections.hosts[self] = None

    @property
    def gate(self) -> Gate:
        """The gate that stops pushes for longer; that of its answers if none does."""
        answers, connections = self.answers, self.connections.gate
        if connections.closed_until > answers.closed_until:
            return connections
        return connections if answers.state == CLOSED and connections.state != CLOSED else answers

    @property
    def is_available(self) -> bool:
        """True unless a breaker is open, or it has asked for a pause."""
        return self.answers.is_available and self.connections.gate.is_available

    @property
    def is_idle(self) -> bool:
        """True if no callback uses it, and nothing about it has to be remembered."""
        return not self.callers and not self._in_flight and self.is_available

    def join(self, caller: Caller) -> None:
        """Notify `caller` of changes."""
        self.callers[caller] = None

    def leave(self, caller: Caller) -> None:
        self.callers.pop(caller, None)
        self._waiting.pop(caller, None)

    def begin(self, caller: Caller) -> bool:
        """Begin a push; False if there is no room, and `caller` is notified when there is."""
        if not self.is_available:
            return False
        if not self._has_room:
            self._waiting.setdefault(caller)
            if self._room.left <= 0:
                self._room.wait(self)
            return False
        self._in_flight += 1
        self.connections.in_flight += 1
        self._room.left -= 1
        return True

    def end(self, effect: str = "", detail: str = "", pause_s: float = 0.0) -> None:
        """End a push, with its effect, and the seconds of the pause of which it is the cause."""
        self._in_flight -= 1
        self.connections.in_flight -= 1
        self._room.left += 1
        was_probing = self.connections.gate.is_probing
        if effect in PAUSES:
            self.answers.close_for(pause_s, effect)
        elif effect == ALIVE:
            self.answers.succeeded()
        elif effect in (BROKEN, SILENT):
            self.answers.failed(detail)
        if effect == UNCONNECTED:
            self.connections.gate.failed(detail)
        elif effect in (ALIVE, BROKEN, RETRY_AFTER):
            self.connections.gate.succeeded()
        if was_probing:
            self.connections.serve_waiting()
        else:
            self.serve_waiting()
        self._room.share()

    def serve_waiting(self) -> None:
        """Have callers that wait begin pushes, in turn, while there is room."""
        while self._waiting and self.is_available and self._has_room:
            caller = next(iter(self._waiting))
            del self._waiting[caller]
            caller.room_available()
            if caller in self._waiting:
                break  # it has used the room up

    def reset(self) -> None:
        """Push again now."""
        self.connections.gate.reset()
        self.answers.reset()

    def changed(self) -> None:
        """Notify the callers: a gate has opened or closed."""
        for caller in list(self.callers):
            caller.host_changed()
        self.serve_waiting()

    @property
    def _has_room(self) -> bool:
        if self.answers.is_probing:
            return self._in_flight == 0
        if self.connections.gate.is_probing:
            return self.connections.in_flight == 0
        within = self._in_flight < MAX_OF_HOST
        return within and (self._room.left > 0 or self._in_flight < RESERVED)


class Hosts:
    """All receivers, by owner, and by host and port. `notify` is called with the name of a host and its
    events."""

    def __init__(
        self,
        notify: Callable[[str, Event, str], None],
        make_breaker: Callable[[], Breaker] = Breaker,
    ) -> None:
        self._notify = notify
        self._make_breaker = make_breaker
        self._room = Room()
        self._hosts: dict[tuple[str, str], Host] = {}
        self._connections: dict[str, Connections] = {}

    def of(self, owner: str, url: str) -> Host:
        """The host of a URL, as this owner sees it."""
        key = owner, host_name(url)
        host = self._hosts.get(key)
        return host if host is not None else self._make(*key)

    def counts(self) -> dict[str, int]:
        """The number of breakers of hosts in use, by their state. One for connections counts if it is not
        closed."""
        in_use = [host for host in self._hosts.values() if host.callers]
        states = [host.answers.state for host in in_use]
        shared = {host.connections for host in in_use}
        states += [one.gate.state for one in shared if one.gate.state != CLOSED]
        return {state: states.count(state) for state in (CLOSED, OPEN, HALF_OPEN)}

    def _make(self, owner: str, name: str) -> Host:
        self._sweep()
        if name not in self._connections:
            self._connections[name] = Connections(self._make_breaker(), partial(self._notify, name))
        host = self._hosts[owner, name] = Host(
            name,
            self._room,
            self._connections[name],
            self._make_breaker(),
            lambda event, detail: self._notify(name, event, f"{detail} (callbacks of {owner})"),
        )
        return host

    def _sweep(self) -> None:
        """Forget hosts that no callback uses."""
        for key in [key for key, host in self._hosts.items() if host.is_idle]:
            host = self._hosts.pop(key)
            del host.connections.hosts[host]
        for name in [name for name, one in self._connections.items() if not one.hosts]:
            del self._connections[name]


def host_name(url: str) -> str:
    """Host and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{(parts.hostname or '').lower()}:{port}"
