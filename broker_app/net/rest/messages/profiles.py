"""Messages to profiles over HTTP, and the seeds that wait for further services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from broker_app.base.audit_actions import SEED_DELETED
from broker_app.base.refused import Refused
from broker_app.base.times import rfc3339
from broker_app.core import commands as c
from broker_app.engine.client import EngineClient
from broker_app.features.services import profiles
from broker_app.features.services.seed_shares import SeedShares
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.messages.envelopes import Envelopes
from broker_app.net.rest.messages.publish import COMMAND_BYTES, PublishTarget, RestPublisher


class Seed(Protocol):
    """A message to a profile that waits for further services."""

    id: str
    terms: profiles.SeedTerms
    persistent: bool
    expires_ms: int
    served: set[str]


class Seeds(Protocol):
    """The seeds of the node; `shares` has the number of each user."""

    @property
    def shares(self) -> SeedShares: ...
    def all(self) -> Iterator[Any]: ...
    def find(self, id: str) -> Any: ...
    async def remove(self, seed: Any) -> None: ...


class ProfileEndpoints:
    """Endpoints `profiles/messages` and `seeds`."""

    def __init__(
        self,
        engine_client: EngineClient,
        publisher: RestPublisher,
        envelopes: Envelopes,
        limits: RestLimits,
        seeds: Seeds,
    ) -> None:
        self._engine_client = engine_client
        self._publisher = publisher
        self._envelopes = envelopes
        self._limits = limits
        self._seeds = seeds
        self._target = PublishTarget(profiles.SEEDS, b"")
        self._listing = Listing[Seed](
            {
                "id": lambda seed: seed.id,
                "profile": lambda seed: seed.terms.criteria,
                "sender": lambda seed: seed.terms.sender.user,
                "copies": lambda seed: len(seed.served),
                "max_copies": lambda seed: seed.terms.max_copies,
                "services": lambda seed: sorted(seed.served),
                "expires_at": lambda seed: rfc3339(seed.expires_ms / 1000) if seed.expires_ms else None,
            },
            {},
            limits.max_page,
            sortable=("id", "profile", "sender", "copies"),
            sort="id",
            last="id",
        )

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "publish_to_profile": self.publish,
            "list_seeds": self.all,
            "remove_seed": self.remove,
        }

    async def publish(self, request: Request) -> Reply:
        """POST profiles/messages?profile=type = 'shop'&max_copies=10"""
        query = request.query(("profile", "max_copies"))
        access, client, engine_client = request.access, request.client, self._engine_client
        access.check_may_send(client)
        if engine_client.engine.full:
            await engine_client.backpressure.wait()
        body = await request.body(self._limits.max_body_bytes)
        if "profile" not in query:
            raise invalid("query/profile", "is missing: a condition on services, such as type = 'shop'")
        copies = whole_number(query, "max_copies", profiles.DEFAULT_COPIES, 1, profiles.MOST_COPIES)
        criteria = profiles.criteria_of(profiles.PREFIX + query["profile"])
        assert criteria is not None
        given = self._envelopes.of_request(profiles.SEEDS.address, request.headers)
        envelope = profiles.seed(given, criteria, access.principal_of(client), copies)
        # A request that had to wait may be older than the policy.
        access.check_may_send(client)
        self._seeds.shares.admit(request.user, len(body) + envelope.overhead_bytes)
        reply = engine_client.pending_reply()
        engine_client.submit(
            c.Publish(engine_client.peer, [(envelope, body, reply)], request.user, client.record_address),
            len(body) + COMMAND_BYTES,
        )
        (message,) = await engine_client.answer(reply)
        assert message is not None, "a detailed peer gets the message"
        return self._publisher.created(message, self._target, 0)

    async def all(self, request: Request) -> Reply:
        """GET seeds: one's own, and all for administrators."""
        query = request.query(self._listing.parameters)
        page = await self._listing.page_of_many(filter(_visible(request), self._seeds.all()), query)
        return json_reply(page._asdict())

    async def remove(self, request: Request) -> Reply:
        """DELETE seeds/{id}: no service gets a further copy."""
        request.query()
        seed = self._seeds.find(request.name)
        if seed is None or not _visible(request)(seed):
            raise Refused("not-found", f"there is no seed {request.name[:80]!r}")
        await self._seeds.remove(seed)
        request.audit(SEED_DELETED, seed.id)
        return NO_CONTENT


def _visible(request: Request) -> Any:
    access, identity = request.access, request.client.identity
    if access.has_full_access(identity):
        return lambda seed: True
    return lambda seed: access.is_own(identity, seed.terms.sender.user, seed.terms.sender.token)
