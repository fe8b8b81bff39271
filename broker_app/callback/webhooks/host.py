"""Hosts: what all callbacks of one receiver share. Its breaker, a pause that it asked for, and how many
pushes have no answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import urlsplit

from broker_app.callback.webhooks.breaker import CLOSED, HALF_OPEN, OPEN, Breaker

#: pushes without an answer: of one host, and of all together
MAX_OF_HOST: Final = 100
MAX_OF_ALL: Final = 2_000
#: pushes that a host may have whatever others have, so that slow receivers cannot take all the room
RESERVED: Final = 2
#: seconds of a pause that a receiver asks for, at most
LONGEST_PAUSE_S: Final = 3600.0

#: the effects of a push on its host; the last two, causes of a pause, leave its breaker as it is
ALIVE, BROKEN, RETRY_AFTER, NO_WORKER = "alive", "broken", "retry-after", "no-worker"
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


class Host:
    """One receiver. `notify` is called with "opened" and "closed" of its breaker, and a detail; not while it
    opens again after a probe."""

    def __init__(self, name: str, room: Room, notify: Callable[[str, str], None], breaker: Breaker) -> None:
        self.name = name
        self.breaker = breaker
        #: until when nothing is pushed, seconds since 1970; 0.0 while it may be pushed to
        self.closed_until = 0.0
        #: one of PAUSES while it is the cause for that; empty if it is the breaker
        self.pause = ""
        self.callers: dict[Caller, None] = {}
        self._room = room
        self._notify = notify
        self._in_flight = 0
        self._waiting: dict[Caller, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_available(self) -> bool:
        """True unless its breaker is open, or it has asked for a pause."""
        return not self.closed_until

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
        self._room.left -= 1
        return True

    def end(self, effect: str = "", detail: str = "", pause_s: float = 0.0) -> None:
        """End a push: its answer shows that the host is alive, or broken, or the cause of a pause."""
        self._in_flight -= 1
        self._room.left += 1
        if pause_s:
            self._close_for(min(pause_s, LONGEST_PAUSE_S), effect)
        if effect == ALIVE and self.breaker.succeeded():
            self._notify("closed", "it answers again")
            if not pause_s:
                self._reopen()
        elif effect == BROKEN:
            self._failed(detail)
        self.serve_waiting()
        self._room.share()

    def _failed(self, detail: str) -> None:
        was_closed = self.breaker.state == CLOSED
        open_s = self.breaker.failed()
        if open_s:
            self._close_for(open_s)
            if was_closed:
                self._notify("opened", detail)

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
        self.breaker.reset()
        self._reopen()

    @property
    def _has_room(self) -> bool:
        if self.breaker.state == HALF_OPEN:
            return self._in_flight == 0
        within = self._in_flight < MAX_OF_HOST
        return within and (self._room.left > 0 or self._in_flight < RESERVED)

    def _close_for(self, seconds: float, pause: str = "") -> None:
        until = time.time() + seconds
        if until <= self.closed_until:
            return
        was_available, self.closed_until, self.pause = self.is_available, until, pause
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._reopen)
        if was_available:
            self._changed()

    def _reopen(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.closed_until, self.pause = 0.0, ""
        self.breaker.try_again()
        self._changed()
        self.serve_waiting()

    def _changed(self) -> None:
        for caller in list(self.callers):
            caller.host_changed()


class Hosts:
    """All receivers, by host and port. `notify` is called with the name of a host and its events."""

    def __init__(
        self,
        notify: Callable[[str, str, str], None],
        make_breaker: Callable[[], Breaker] = Breaker,
    ) -> None:
        self._notify = notify
        self._make_breaker = make_breaker
        self._room = Room()
        self._hosts: dict[str, Host] = {}

    def of(self, url: str) -> Host:
        """The host of a URL."""
        name = host_name(url)
        host = self._hosts.get(name)
        if host is None:
            self._sweep()
            host = self._hosts[name] = Host(
                name,
                self._room,
                lambda event, detail: self._notify(name, event, detail),
                self._make_breaker(),
            )
        return host

    def counts(self) -> dict[str, int]:
        """The number of hosts by the state of their breakers."""
        states = [host.breaker.state for host in self._hosts.values() if host.callers]
        return {state: states.count(state) for state in (CLOSED, OPEN, HALF_OPEN)}

    def _sweep(self) -> None:
        """Forget hosts that no callback uses."""
        for name in [name for name, host in self._hosts.items() if host.is_idle]:
            del self._hosts[name]


def host_name(url: str) -> str:
    """Host and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{(parts.hostname or '').lower()}:{port}"
