"""Deliveries that the application has not settled: with another connection they would come again."""

import asyncio

from .stomp import Frame

__all__ = ["Unsettled"]


class Unsettled:
    """Those of the present connection, by subscription in the order in which they came."""

    def __init__(self) -> None:
        self._by_subscription: dict[str, dict[str, None]] = {}
        #: subscriptions of which settling one delivery settles all before it
        self._cumulative: set[str] = set()
        self._none = asyncio.Event()
        self._none.set()

    def __bool__(self) -> bool:
        return bool(self._by_subscription)

    def delivered(self, frame: Frame, *, cumulative: bool) -> None:
        """Note a delivery that has to be settled; `cumulative` if that settles all before it, too."""
        subscription = frame.headers.get("subscription", "")
        held = self._by_subscription.get(subscription)
        if held is None:
            held = self._by_subscription[subscription] = {}
            self._none.clear()
            if cumulative:
                self._cumulative.add(subscription)
        held[_id_of(frame)] = None

    def settled(self, frame: Frame) -> None:
        """Note that a delivery was settled; one that is not known, as of a former connection, is ignored."""
        subscription, id = frame.headers.get("subscription", ""), _id_of(frame)
        held = self._by_subscription.get(subscription)
        if held is None or id not in held:
            return
        if subscription in self._cumulative:
            for earlier in list(held):
                del held[earlier]
                if earlier == id:
                    break
        else:
            del held[id]
        if not held:
            self.returned(subscription)

    def returned(self, subscription: str) -> None:
        """Note that all of a subscription were returned, because it has ended."""
        self._by_subscription.pop(subscription, None)
        self._cumulative.discard(subscription)
        if not self._by_subscription:
            self._none.set()

    def clear(self) -> None:
        """Forget all: their connection was lost."""
        self._by_subscription.clear()
        self._cumulative.clear()
        self._none.set()

    async def none(self) -> None:
        """Wait until there is none."""
        await self._none.wait()


def _id_of(frame: Frame) -> str:
    """The id by which a delivery is settled: that of STOMP 1.2, or of the versions before it."""
    return frame.headers.get("ack") or frame.headers.get("message-id", "")
