"""The fast path of the commonest request: one message to a queue, from a program that is known already.

The full path (`api`) gives every request a scope, a task and a future of its own, which costs more than
all else together (benchmarks/RESULTS.md, W5). Here a request is a token that the engine answers. Nothing is
decided here that is not decided there: whatever is unusual, wrong or has to wait takes the full path.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Protocol

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import Message
from broker_app.engine.client import EngineClient
from broker_app.net.auth.login import Logins
from broker_app.net.broker_state import BrokerState
from broker_app.net.http.credentials import Credentials
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.replies import Header, Reply, problem_reply, request_id
from broker_app.net.http.routing import PREFIX, Router
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.messages.envelopes import Envelopes
from broker_app.net.rest.messages.publish import COMMAND_BYTES, PublishTarget, RestPublisher
from broker_app.rules.event import REST, SEND

_log = logging.getLogger(__name__)

#: headers that need what only the full path does
_UNUSUAL = frozenset((b"content-encoding", b"idempotency-key", b"traceparent", b"x-forwarded-for"))


class Caller:
    """The authenticated client of a connection, valid for the header `authorization` and for `policy`, with
    the destinations that it may send to."""

    __slots__ = ("authorization", "client", "policy", "record_address", "targets", "until")

    def __init__(self, authorization: bytes, client: Client, policy: Policy, until: float) -> None:
        self.authorization = authorization
        self.client = client
        self.record_address = client.record_address
        self.policy = policy
        self.until = until
        self.targets: set[PublishTarget] = set()


class Connection(Protocol):
    """The HTTP connection under a request. `caller` is a free place for us."""

    caller: Caller | None

    @property
    def client(self) -> tuple[str, int] | None:
        """Address and port of the other end."""

    @property
    def scheme(self) -> str | None:
        """http or https."""

    def answer(self, reply: Reply, own: list[Header]) -> None:
        """Send the reply to the request in hand; `own` are headers that go before the reply's."""


class Post:
    """One request, from its submission to its answer."""

    __slots__ = ("_connection", "_engine_client", "_number", "_publisher", "_target")

    def __init__(
        self,
        engine_client: EngineClient,
        publisher: RestPublisher,
        connection: Connection,
        target: PublishTarget,
        number: int,
    ) -> None:
        self._engine_client = engine_client
        self._publisher = publisher
        self._connection = connection
        self._target = target
        self._number = number

    def accepted(self, message: Message | None) -> None:
        assert message is not None, "a detailed peer gets the message"
        self._answer(self._publisher.created(message, self._target))

    def refused(self, refusal: Refused) -> None:
        self._answer(problem_reply(refusal, None))

    def failed(self, error: Exception) -> None:
        if not isinstance(error, Refused):
            _log.error("request %s-%x failed: %s", self._engine_client.leases.boot, self._number, error)
            error = Refused("internal", "the node failed; its log has the details")
        self._answer(problem_reply(error, None))

    def _answer(self, reply: Reply) -> None:
        self._engine_client.forget(self)
        self._connection.answer(reply, [request_id(self._engine_client.leases.boot, self._number)])


class FastPublish:
    """Takes what can take the fast path."""

    MAX_TARGETS = 1_024
    #: longer bodies gain nothing
    MAX_BODY = 64 * 1024
    #: seconds before the credentials of a connection are checked again
    BELIEVED_S = 1.0

    def __init__(
        self,
        engine_client: EngineClient,
        router: Router,
        credentials: Credentials,
        logins: Logins,
        access: Access,
        publisher: RestPublisher,
        envelopes: Envelopes,
        limits: RestLimits,
        numbers: itertools.count[int],
        *,
        behind_tls: bool,
        state: BrokerState,
    ) -> None:
        self._state = state
        self._engine_client = engine_client
        self._router = router
        self._credentials = credentials
        self._logins = logins
        self._access = access
        self._behind_tls = behind_tls
        self._publisher = publisher
        self._envelopes = envelopes
        self._numbers = numbers
        self.max_body = min(self.MAX_BODY, limits.max_body_bytes)
        self._clock = asyncio.get_running_loop().time
        #: by address as it was sent; None for addresses that always take the full path
        self._targets: dict[bytes, PublishTarget | None] = {}

    def take(self, connection: Connection, url: bytes, headers: list[Header], body: bytes) -> bool:
        """Publish the body of a POST to `url`; False, with nothing done, when it must take the full path."""
        engine_client = self._engine_client
        try:
            target = self._targets[url]
        except KeyError:
            target = self._find(url)
        engine = engine_client.engine
        if target is None or engine.full or engine.ended is not None or self._state.is_refusing:
            return False
        caller = self._caller(connection, headers)
        if caller is None:
            return False
        try:
            if target not in caller.targets:
                self._permit(caller, target)
            envelope = self._envelopes.of_request(target.destination.address, headers)
        except Refused:
            return False
        post = Post(engine_client, self._publisher, connection, target, next(self._numbers))
        engine_client.watch(post)
        publish = c.Publish(
            *(engine_client.peer, [(envelope, body, post)], caller.client.identity.user),
            caller.record_address,
        )
        engine_client.submit(publish, len(body) + COMMAND_BYTES)
        return True

    def _find(self, url: bytes) -> PublishTarget | None:
        target = None
        if url.startswith(PREFIX.encode()) and b"?" not in url and b"#" not in url:
            try:
                match = self._router.find("POST", url)
                if match.operation.endpoint == self._publisher.to_queue and match.name:
                    target = self._publisher.target("/queue/" + match.name)
            except Refused:
                return None
        if len(url) <= Router.MAX_CACHED_BYTES:
            if len(self._targets) >= self.MAX_TARGETS:
                self._targets.clear()
            self._targets[url] = target
        return target

    def _permit(self, caller: Caller, target: PublishTarget) -> None:
        """Check the permission to send, and remember it with the credentials. Raises Refused."""
        self._access.check(caller.client, SEND, target.destination)
        if len(caller.targets) >= self.MAX_TARGETS:
            caller.targets.clear()
        caller.targets.add(target)

    def _caller(self, connection: Connection, headers: list[Header]) -> Caller | None:
        """The identity of a request by its header Authorization, if it is known without waiting."""
        authorization = None
        for name, value in headers:
            if name in _UNUSUAL:
                return None
            if name == b"authorization" and authorization is None:
                authorization = value
        if authorization is None:
            return None
        caller, now, policy = connection.caller, self._clock(), self._logins.policy
        if (
            caller is not None
            and caller.authorization == authorization
            and caller.policy is policy
            and now < caller.until
        ):
            return caller
        identity = self._credentials.known(authorization)
        if identity is None:
            return None
        address = connection.client[0] if connection.client else None
        info = ConnectionInfo(REST, address, self._behind_tls or connection.scheme == "https")
        connection.caller = Caller(authorization, Client(identity, info), policy, now + self.BELIEVED_S)
        return connection.caller
