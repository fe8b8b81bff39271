"""Sites over HTTP: which there are, and messages and requests to their applications."""

from __future__ import annotations

import asyncio
from operator import attrgetter

from broker_app.base.refused import Refused
from broker_app.features.channels.channels import Channels
from broker_app.features.channels.content import CallOutcome, ChannelContent, joined
from broker_app.features.channels.report import SiteReport
from broker_app.features.channels.requests import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS
from broker_app.features.channels.statuses import OK
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, boolean, decode, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.messages.parts import Parts, part_of

_BYTES = b"application/octet-stream"


class SiteEndpoints:
    """Endpoints `sites…`."""

    def __init__(self, channels: Channels, limits: RestLimits) -> None:
        self._channels = channels
        self._limits = limits
        self._listing = Listing[SiteReport](
            {name: attrgetter(name) for name in SiteReport.__struct_fields__},
            {},
            limits.max_page,
            sortable=("name", "in_flight", "sent", "received"),
            sort="name",
            last="name",
        )

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_sites": self.all,
            "send_message_to_site": self.send,
            "send_request_to_site": self.request,
        }

    async def all(self, request: Request) -> Reply:
        """GET sites: all sites, as this one sees them"""
        query = request.query(self._listing.parameters)
        return json_reply(self._listing.page(self._channels.report().sites, query)._asdict())

    async def send(self, request: Request) -> Reply:
        """POST sites/{site}/messages: a message, which has no answer"""
        query = request.query(("parts",))
        self._channels.send(request.name, await self._content(request, query))
        return NO_CONTENT

    async def request(self, request: Request) -> Reply:
        """POST sites/{site}/requests: a request; the reply is its answer"""
        query = request.query(("parts", "multiple", "timeout_ms"))
        multiple = boolean(query, "multiple")
        timeout_ms = whole_number(query, "timeout_ms", DEFAULT_TIMEOUT_MS, 1, MAX_TIMEOUT_MS)
        content = await self._content(request, query)
        future: asyncio.Future[CallOutcome] = asyncio.get_running_loop().create_future()

        def answered(answer: CallOutcome) -> None:
            if not future.done():  # the client may have left
                future.set_result(answer)

        self._channels.request(request.name, content, timeout_ms, answered, multiple=multiple)
        answer = await future
        if answer.status != OK:
            raise Refused(answer.status, answer.reason)
        if multiple:
            return json_reply(Parts([part_of(part) for part in answer.content.parts()]))
        return Reply(200, _BYTES, answer.content.body)

    async def _content(self, request: Request, query: dict[str, str]) -> ChannelContent:
        """The content of a message or a request: the body as it is, or the parts in it. Raises Refused."""
        request.access.check_may_send(request.client)
        body = await request.body(self._limits.max_body_bytes)
        if not boolean(query, "parts"):
            return ChannelContent(body)
        return joined([part.content() for part in decode(body, Parts).parts])
