"""Orders of a broker to its clients: lists of brokers, and to go to another."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..stomp import Frame
from ..stomp import frame as wire
from .failover import Failover
from .link import Link
from .switch import Switch

__all__ = ["LIST_SUBSCRIPTION", "BrokerLists"]

log = logging.getLogger("mom_client")

LIST_SUBSCRIPTION = "$mom.failover"
LIST_TOPIC = "/topic/$mom.failover"


class BrokerLists:
    """Takes the messages of `LIST_TOPIC`.

    | body                                    | effect                                                     |
    |-----------------------------------------|------------------------------------------------------------|
    | ["uri", …]                              | the list of the broker                                     |
    | {"uris": ["uri", …], "rebalance": true} | the same; a changed list makes the client go to its first  |
    | the same with "to": "uri"               | the client goes there, whether the list has changed or not |
    | {"reconnect": "uri"}                    | the client goes there and forgets its configured addresses |
    """

    def __init__(
        self,
        failover: Failover,
        switch: Switch,
        *,
        changed: Callable[[], None] = lambda: None,
        reconnect: bool = True,
        preferred: Sequence[str] = (),
    ) -> None:
        self._failover = failover
        self._switch = switch
        self._changed = changed  # called when the set of addresses has changed
        self._reconnect = reconnect
        self._preferred = preferred
        self._task: asyncio.Task[Any] | None = None

    def subscribe(self, link: Link) -> None:
        """Subscribe, where the broker is one that sends lists."""
        if link.is_to_mom or "mom-failover" in link.connection.headers:
            headers = {"id": LIST_SUBSCRIPTION, "destination": LIST_TOPIC, "ack": "auto"}
            link.write(link.connection.encode(wire.SUBSCRIBE, headers))

    def take(self, frame: Frame, address: str) -> None:
        """Obey a message; `address` is that of the connection. What cannot be read is logged."""
        try:
            order = json.loads(frame.body)
        except ValueError as error:
            log.warning("the list of %s is not JSON: %s", address, error)
            return
        if isinstance(order, list):
            order = {"uris": order}
        if not isinstance(order, dict):
            log.warning("the list of %s is neither a list nor an object", address)
            return
        self._obey(order, address)

    def _obey(self, order: Mapping[str, Any], address: str) -> None:
        uris = order.get("uris")
        listed = uris if isinstance(uris, list) else []
        changed = self._failover.learn([uri for uri in listed if isinstance(uri, str)])
        if changed:
            self._changed()
        target = order.get("reconnect")
        if isinstance(target, str) and target:
            if self._reconnect and self._failover.accepts(target):
                self._go(target, f"the broker sends the client to {target}", forget=True)
            else:
                log.info("the broker's order to reconnect to %.200s is not obeyed", target)
        elif order.get("rebalance") is True and address not in self._preferred:
            first = order.get("to")
            if not (isinstance(first, str) and self._failover.accepts(first)):
                first = self._failover.shuffled[0] if changed else address
            if first != address:
                self._go(first, f"the list of brokers has changed: rebalancing to {first}")

    def _go(self, address: str, reason: str, *, forget: bool = False) -> None:
        """Go to `address`, and `forget` all others. A client that is rebalanced stays at its broker if it
        does not settle in time what was delivered; an order to `forget` is obeyed all the same."""

        async def go() -> None:
            if await self._switch.to(address, reason, must_settle=not forget) and forget:
                self._failover.configure(address)

        if self._task is None or self._task.done():
            self._task = asyncio.create_task(go(), name="mom_client switch")

    def close(self) -> None:
        """Stop going elsewhere."""
        if self._task is not None:
            self._task.cancel()
