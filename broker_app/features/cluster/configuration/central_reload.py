"""The central file, read again while the brokers run: an order at one of them reaches all that are linked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from broker_app.base.internal_errors import internal_errors
from broker_app.base.process.task_supervisor import TaskSupervisor
from broker_app.base.refused import Refused
from broker_app.base.settings import transport_connectors
from broker_app.config import Config, ConfigError, settings
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link

#: seconds in which a broker has read its file; from a web server that takes 10 at most
_ANSWER_S: Final = 15.0
#: besides the settings that can be replaced while a node runs, the list of brokers, and those of the lists
#: that clients are sent
_LIVE: Final = frozenset({"cluster", *transport_connectors.SETTINGS})


class BrokerReload(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one broker on its central file: the settings that it `applied`, and those that are
    `refused` because they need a restart; or the `error` for which it did nothing."""

    broker: str
    applied: list[f.ChangedSetting] = []
    refused: list[f.ChangedSetting] = []
    error: str = ""


class Reread(NamedTuple):
    """The changes by a central file that was read again: fields of `Config`, and the settings that these are;
    and those that need a restart."""

    changes: dict[str, Any]
    applied: list[f.ChangedSetting]
    refused: list[f.ChangedSetting]


def compare(running: Config, read: Config) -> Reread:
    """The replacements in the settings that run: those of the central file for which that needs no
    restart. `read` are all settings as they would be after one."""
    live = {one.name for one in settings() if one.rule.reloadable} | _LIVE
    applied: list[f.ChangedSetting] = []
    refused: list[f.ChangedSetting] = []
    changes: dict[str, Any] = {}
    central, sources = dict(running.central), dict(running.sources)
    for name in sorted({*running.central, *read.central}):
        before, now = getattr(running, name), getattr(read, name)
        if before != now:
            changed = f.ChangedSetting(name, _shown(before), _shown(now))
            if name not in live:
                refused.append(changed)
                continue
            applied.append(changed)
            changes[name] = now
        _take(name, central, read.central)
        _take(name, sources, read.sources)
    changes |= {"central": MappingProxyType(central), "sources": MappingProxyType(sources)}
    return Reread(changes, applied[: f.MOST_CHANGED], refused[: f.MOST_CHANGED])


class CentralReload:
    """Gives the order to other brokers, and carries out theirs. `read_here` reads the file of this broker,
    and raises ConfigError."""

    def __init__(self, name: str, read_here: Callable[[], Awaitable[Reread]]) -> None:
        self._name = name
        self._read_here = read_here
        self._numbers = count(1)
        #: orders that wait for answers, by number
        self._orders: dict[int, dict[Link, asyncio.Future[BrokerReload]]] = {}
        #: brokers for which the file is read now
        self._answering: set[Link] = set()
        self._lock = asyncio.Lock()
        self._tasks = TaskSupervisor()

    async def everywhere(self, links: Sequence[Link]) -> list[BrokerReload]:
        """Read the file here, then at the brokers of these links. Raises Refused, and asks no other broker,
        if that of this broker cannot be used."""
        try:
            here = await self._here()
        except ConfigError as error:
            raise Refused("conflict", _one_line(error)) from error
        order = {link: asyncio.get_running_loop().create_future() for link in links}
        number = next(self._numbers)
        self._orders[number] = order
        try:
            for link in order:
                link.send(f.Reload(number))
            if order:
                await asyncio.wait(order.values(), timeout=_ANSWER_S)
        finally:
            del self._orders[number]
        late = f"it has not answered in {_ANSWER_S:g} s; its log, and `mom cluster reload` there, say more"
        others = [
            answer.result() if answer.done() else BrokerReload(broker=_name_of(link), error=late)
            for link, answer in order.items()
        ]
        return [here, *others]

    def asked(self, link: Link, frame: f.Reload) -> None:
        """Carry out the order of another broker; one at a time of each."""
        if link in self._answering:
            link.send(f.Reloaded(frame.number, error="it reads its central file already"))
            return
        self._answering.add(link)
        self._tasks.start("central file", partial(self._answer, link, frame.number))

    def answered(self, link: Link, frame: f.Reloaded) -> None:
        """Take the answer of another broker."""
        found = BrokerReload(
            broker=_name_of(link), applied=frame.applied, refused=frame.refused, error=frame.error
        )
        _settle(self._orders.get(frame.number, {}), link, found)

    def ended(self, link: Link) -> None:
        """Wait no longer for a broker whose link has ended."""
        found = BrokerReload(broker=_name_of(link), error="its link ended before it answered")
        for order in self._orders.values():
            _settle(order, link, found)

    async def stop(self) -> None:
        """Answer no broker any more."""
        await self._tasks.stop()

    async def _here(self) -> BrokerReload:
        async with self._lock:
            found = await self._read_here()
        return BrokerReload(broker=self._name, applied=found.applied, refused=found.refused)

    async def _answer(self, link: Link, number: int) -> None:
        try:
            done = await self._here()
            link.send(f.Reloaded(number, done.applied, done.refused))
        except ConfigError as error:
            link.send(f.Reloaded(number, error=_one_line(error)))
        except Exception as error:
            internal_errors.note("the central file", error)
            link.send(f.Reloaded(number, error="the broker failed at it; its log has the details"))
        finally:
            self._answering.discard(link)


def _settle(order: dict[Link, asyncio.Future[BrokerReload]], link: Link, found: BrokerReload) -> None:
    answer = order.get(link)
    if answer is not None and not answer.done():
        answer.set_result(found)


def _take(name: str, into: dict[str, Any], of: Any) -> None:
    """Have one name in a mapping as another mapping has it."""
    if name in of:
        into[name] = of[name]
    else:
        into.pop(name, None)


def _name_of(link: Link) -> str:
    return link.broker.name if link.broker is not None else ""


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str("" if value is None else value)
    return text[: f.MOST_SHOWN]


def _one_line(error: ConfigError) -> str:
    return "; ".join(str(error).splitlines())[: f.MOST_SHOWN]
