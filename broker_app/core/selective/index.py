"""An index of selectors: finds those that match a message without evaluating all of them.

A selector with the condition `header = literal` (or IN) can match only messages whose header has that value,
so it is filed under that value. Messages with equal headers share an envelope; the result for one is used for
all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from broker_app.core import header_block
from broker_app.core.delivery.rotation import Rotation
from broker_app.core.message import Envelope, Message, MessageIds
from broker_app.core.selectors.selector import Selector, as_number


class SelectorGroup:
    """The consumers of one queue with equal selectors, or (None) without one."""

    __slots__ = ("available", "consumers", "selector", "unused_since_ms")

    def __init__(self, selector: Selector | None) -> None:
        self.selector = selector
        self.consumers = 0
        #: consumers that can take a message now, the next one in turn first
        self.available = Rotation()
        #: since when it has no consumers
        self.unused_since_ms = 0

    @property
    def condition(self) -> Selector:
        """The selector. Assumes: there is one."""
        assert self.selector is not None
        return self.selector

    def wants(self, message: Message, ids: MessageIds) -> bool:
        """Return whether the selector, if any, matches a message."""
        return self.selector is None or self.selector.matches(message, ids)


#: the selector groups that are filed under one value of one header
Drawer = dict[SelectorGroup, None]


class Index:
    """The selector groups of one queue that have a selector."""

    #: envelopes whose matches are remembered
    MAX_REMEMBERED = 1_024

    def __init__(self) -> None:
        #: header → value → selector groups. Texts and numbers are filed apart: the header "5.0" is the number
        #: 5 and not the text "5".
        self._files: dict[str, dict[str | float, Drawer]] = {}
        #: header → how often a number is filed under it
        self._numbers: Counter[str] = Counter()
        self._unfiled: Drawer = {}
        self._places: dict[SelectorGroup, list[tuple[str, str | float]]] = {}
        self._remembered: dict[Envelope, tuple[SelectorGroup, ...]] = {}
        self._timely = 0
        #: the cost of all evaluations so far (`Selector.cost`)
        self.spent = 0

    def add(self, selector_group: SelectorGroup) -> None:
        """Add a selector group."""
        places = self._places[selector_group] = self._choose(selector_group)
        for name, value in places:
            self._files.setdefault(name, {}).setdefault(value, {})[selector_group] = None
            self._numbers[name] += not isinstance(value, str)
        if not places:
            self._unfiled[selector_group] = None
        self._timely += selector_group.condition.timely
        self._remembered.clear()

    def remove(self, selector_group: SelectorGroup) -> None:
        """Remove a selector group."""
        for name, value in self._places.pop(selector_group):
            file = self._files[name]
            del file[value][selector_group]
            self._numbers[name] -= not isinstance(value, str)
            if not file[value]:
                del file[value]
            if not file:
                del self._files[name], self._numbers[name]
        self._unfiled.pop(selector_group, None)
        self._timely -= selector_group.condition.timely
        self._remembered.clear()

    def matching(self, message: Message, ids: MessageIds) -> tuple[SelectorGroup, ...]:
        """The selector groups whose selector matches `message`."""
        envelope = message.envelope
        known = self._remembered.get(envelope)
        if known is not None and not self._timely:
            return known
        headers = header_block.headers(envelope.block)
        candidates = dict.fromkeys((*self._unfiled, *self._filed(headers)))
        if known is not None:  # messages with the same header block
            candidates = {s: None for s in candidates if s.condition.timely or s in known}
        self.spent += sum([s.condition.cost(message) for s in candidates])
        found = tuple(s for s in candidates if s.condition.accepts(headers, message, ids))
        if known is None:
            if len(self._remembered) >= self.MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[envelope] = found
        return found

    def _filed(self, headers: dict[str, str]) -> Iterable[SelectorGroup]:
        for name, file in self._files.items():
            text = headers.get(name)
            if text is not None:
                yield from file.get(text, ())
                number = as_number(text) if self._numbers.get(name) else None
                if number is not None:
                    yield from file.get(number, ())

    def _choose(self, selector_group: SelectorGroup) -> list[tuple[str, str | float]]:
        """The header and values to file under: those with the fewest other groups."""
        anchors = selector_group.condition.anchors

        def size(name: str) -> int:
            file = self._files.get(name, {})
            return sum(1 + len(file.get(value, ())) for value in anchors[name])

        return (
            [(name, value) for name in [min(anchors, key=size)] for value in anchors[name]] if anchors else []
        )
