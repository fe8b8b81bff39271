"""The REST data plane: a bare ASGI callable that feeds the engine as a client like any other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from broker_app.base.events import PAUSE, Event
from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.net.auth.login import Identity
from broker_app.net.broker_state import PAUSED, BrokerState, Order
from broker_app.net.http.credentials import Credentials
from broker_app.net.http.dispatcher import Dispatcher
from broker_app.net.http.idempotency import IdempotencyStore
from broker_app.net.http.origin_check import Origins
from broker_app.net.http.replies import request_id
from broker_app.net.http.requests import Receive, Scope, Send
from broker_app.net.http.routing import Handlers, Router
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.rest import openapi
from broker_app.net.rest.messages.fast_publish import FastPublish
from broker_app.net.rest.rest_parts import RestParts


class RestApi:
    """The endpoints of `/api/v1` that move or show messages.

    - `parts` are what endpoints share;
    - `handlers` are the endpoints, by the id of the operation in the OpenAPI description;
    - `actions` records operators' actions;
    - `state` says whether clients are served;
    - `others` answer paths that the OpenAPI description does not have;
    - `control_document` is an OpenAPI document whose paths are answered by another program;
    - `successor` returns which broker serves after the engine of this one has failed; None if that is not
      known.

    Created within the running loop. The node calls `policy_changed` after a new policy, `engine_ended`
    when the engine fails, and `stop` before it closes the listeners.
    """

    def __init__(
        self,
        parts: RestParts,
        handlers: Handlers,
        config: Config,
        *,
        actions: OperatorActions,
        state: BrokerState,
        others: Sequence[Router] = (),
        control_document: Mapping[str, Any] | None = None,
        successor: Callable[[], Awaitable[Refused | None]] | None = None,
    ) -> None:
        self._successor = successor
        self._ending: asyncio.Task[None] | None = None
        self._limits = parts.limits
        self._access = parts.access
        self._waiting = parts.waiting
        self._state = state
        state.listeners.add(self._state_changed)
        self.engine_client = parts.engine_client
        credentials = Credentials(parts.logins, Origins(config.known_hosts, config.allowed_origins))
        router = Router(openapi.PATHS, handlers, (control_document or {}).get("paths"))
        boot, numbers = self.engine_client.leases.boot, itertools.count(1)
        self._dispatcher = Dispatcher(
            (router, *others),
            credentials,
            parts.access,
            parts.limits,
            actions,
            lambda: request_id(boot, next(numbers)),
            behind_tls=config.behind_tls,
            idempotency=IdempotencyStore(asyncio.get_running_loop().time),
            state=state,
            successor=self._found_successor,
        )
        self.direct = FastPublish(
            self.engine_client,
            router,
            credentials,
            parts.logins,
            parts.access,
            parts.publisher,
            parts.envelopes,
            parts.limits,
            numbers,
            behind_tls=config.behind_tls,
            state=state,
        )

    def owns(self, scope: Scope) -> bool:
        """True if an HTTP request is answered here."""
        return self._dispatcher.owns(scope)

    def stop(self) -> None:
        """End all waiting receives and event streams, and later ones at once."""
        self._waiting.stop()

    def configure(self, config: Config) -> None:
        """Apply other settings."""
        self._limits.follow(config)
        self.engine_client.peer.blocked_timeout_ms = round(self._limits.max_queue_wait_s * 1000)

    async def turn(self) -> None:
        """Wait until all commands submitted before are carried out. Raises Refused."""
        await self.engine_client.turn()

    def policy_changed(self) -> None:
        """End the waiting requests of users and tokens that were deleted or have lost the right."""
        self._waiting.recheck_permissions(self._access)

    def _state_changed(self, event: Event, _: Order) -> None:
        """The broker was paused: no request receives messages any more."""
        if event == PAUSE:
            self._waiting.end_receiving(lambda: self._state.refusal((PAUSED,)))

    @property
    def receiving(self) -> int:
        """The requests that wait for messages."""
        return self._waiting.receiving

    def waiting(self) -> Iterator[Identity]:
        """The identities of requests that wait for messages."""
        return self._waiting.identities

    def engine_ended(self, error: BaseException) -> None:
        """Answer all requests that wait for the engine, which has ended: with the broker that serves now, if
        that can be found."""
        self.engine_client.engine_ended(error)
        if self._successor is None:
            self.stop()
        else:
            self._ending = asyncio.ensure_future(self._end_waiting())

    async def _end_waiting(self) -> None:
        self._waiting.stop(await self._found_successor())

    async def _found_successor(self) -> Refused | None:
        if self._successor is None or self.engine_client.engine.ended is None:
            return None
        return await self._successor()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatcher(scope, receive, send)
