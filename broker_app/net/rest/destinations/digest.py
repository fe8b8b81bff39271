"""The messages of a queue together: how many, how old; of dead letters, where and why they died."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from broker_app.base.times import of_ms
from broker_app.core.message import Message
from broker_app.core.storage import dead_letter_headers
from broker_app.features.jobs import filters
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.rest.messages.browse import Browser, Search
from broker_app.net.rest.messages.browse_query import FILTERS, HEADER, filter_of
from broker_app.rules.event import BROWSE, READ

#: origins, and reasons, that are named; what is beyond them is counted together
_NAMED = 20


class Digest:
    """Counts of the messages that fit, as they are `seen` by the client. Reasons are a dead letter's
    detail, or, where it has none, its reason; both can be looked for with `reason=`. Times are ms since
    1970, 0 for none."""

    def __init__(self, fits: filters.Fits, seen: Callable[[Message], Message]) -> None:
        self._fits = fits
        self._seen = seen
        self.matches = self.bytes = 0
        self.oldest_ms = self.newest_ms = 0
        self.by_origin: Counter[str] = Counter()
        self.by_reason: Counter[str] = Counter()

    def count(self, message: Message, message_id: bytes) -> bool:
        """Take one message in, if it fits. Always False: none of them is to be shown."""
        size, message = len(message.body), self._seen(message)
        if not self._fits(message, message_id):
            return False
        self.matches += 1
        self.bytes += size
        self.oldest_ms = min(self.oldest_ms or message.time_ms, message.time_ms)
        self.newest_ms = max(self.newest_ms, message.time_ms)
        origin = dead_letter_headers.origin_of(message.envelope.block)
        if origin:
            headers = filters.headers_of(message.envelope.block)
            filters.count(self.by_origin, origin.removeprefix("/queue/"))
            filters.count(self.by_reason, filters.reason_of(headers))
        return False


class DigestEndpoint:
    """Endpoint `queues/{name}/digest`."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    async def digest(self, request: Request) -> Reply:
        """GET queues/{name}/digest, with the conditions of browsing"""
        query = request.query(("queue", *FILTERS), HEADER)
        address = request.permitted(BROWSE, "/queue/" + request.name).address
        chosen = filter_of(query)
        if chosen.q is not None:
            request.permitted(READ, address)
        fits = filters.fitting(chosen, self._browser.ids, time.time_ns() // 1_000_000)
        found = Digest(fits, partial(request.access.masks_of(request.client).shown, address))
        search = Search(address, 1, chosen.state, found.count)
        page, stopped = await self._browser.search(search, None, lambda row: row.cursor)
        return json_reply(
            {
                "matches": found.matches,
                "bytes": found.bytes,
                "oldest": of_ms(found.oldest_ms),
                "newest": of_ms(found.newest_ms),
                "by_origin": dict(found.by_origin.most_common(_NAMED)),
                "by_reason": dict(found.by_reason.most_common(_NAMED)),
                "scanned": page.scanned,
                "stopped": stopped,
                "approx_total": page.approx_total,
            }
        )
