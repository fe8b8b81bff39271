"""The supervisor of callbacks: starts and stops webhooks as the configuration requires."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from broker_app.base.events import SUBSCRIPTION_DELETED, SUBSCRIPTION_KEPT, Event
from broker_app.base.internal_errors import EventListeners
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.config import Config
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.webhooks import cloud_event, report
from broker_app.features.callbacks.webhooks.breaker import Breaker
from broker_app.features.callbacks.webhooks.byte_budget import ByteBudget
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.durable_subscription import DurableSubscriptions
from broker_app.features.callbacks.webhooks.host import Hosts
from broker_app.features.callbacks.webhooks.push_totals import PushTotals
from broker_app.features.callbacks.webhooks.report import CallbackReport, CallbackTest, CallbackTotals, Push
from broker_app.features.callbacks.webhooks.state_file import StateFile
from broker_app.features.callbacks.webhooks.webhook import Webhook, WebhookEnvironment
from broker_app.peers.http_client.address_filter import AddressFilter
from broker_app.peers.http_client.exchange import Poster

#: tests at the same time
MAX_TESTS: Final = 8
#: where a receiver agrees later, below the address of the console
_CONFIRMATION: Final = "/api/v1/callbacks/{name}/confirm?token={token}"


class Supervisor:
    """`start` it once the engine has recovered, `stop` it before the engine stops.

    `refusal` returns the reason why the owner of a callback may not receive its messages, or an empty text.
    `make_poster` is called when the first request is to be sent.
    """

    def __init__(
        self,
        engine: Engine,
        config: Config,
        refusal: Callable[[Callback], str],
        make_poster: Callable[[], Poster] | None = None,
        make_breaker: Callable[[], Breaker] = Breaker,
    ) -> None:
        self._engine = engine
        self._config = config
        self._requests = EngineClient(engine, "callbacks")
        self._subscriptions = DurableSubscriptions(engine, self._requests)
        self._make_poster = make_poster or self._make_http_client
        self._poster: Poster | None = None
        self._hosts = Hosts(self._host_event, make_breaker)
        self._webhooks: dict[str, Webhook] = {}
        #: webhooks that end, by name; their subscriptions are deleted when they have
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._tests = Shares(lambda: MAX_TESTS, "tests of callbacks")
        self._totals = PushTotals()
        self._environment = WebhookEnvironment(
            engine,
            self._requests,
            self._subscriptions,
            self._hosts,
            ByteBudget(),
            self._totals,
            self._the_poster,
            StateFile(config.data),
            source=f"mom://{config.name}",
            origin=config.name,
            confirm_url=_confirm_url(config),
            refusal=refusal,
            notify=self._notify,
        )
        #: called with the name of the callback (or of a host), the event, and its fields
        self.listeners: EventListeners[[str, Event, dict[str, Any]]] = EventListeners(
            "the callbacks' listeners"
        )

    def start(self, callbacks: Mapping[str, Callback]) -> None:
        """Begin with these callbacks. Subscriptions of callbacks that were deleted while the broker did not
        run are deleted."""
        self._environment.states.keep_only(set(callbacks))
        wanted = {name for name, callback in callbacks.items() if callback.subscription}
        for name, messages in self._subscriptions.names().items():
            if name not in wanted:
                self._ending[name] = asyncio.create_task(self._delete_subscription(name, messages))
        self.reload(callbacks)

    def reload(self, callbacks: Mapping[str, Callback]) -> None:
        """Apply a changed configuration, or changed rights."""
        for name in [name for name in self._webhooks if name not in callbacks]:
            webhook = self._webhooks.pop(name)
            self._ending[name] = asyncio.create_task(self._end(name, webhook))
        for name, callback in callbacks.items():
            known = self._webhooks.get(name)
            if known is None:
                self._begin(callback)
            elif known.callback != callback:
                known.configure(callback)
            else:
                known.check()  # its owner may have lost, or got, the right

    async def stop(self) -> None:
        """End all pushes in good order; the subscriptions stay."""
        ending = [asyncio.create_task(webhook.stop()) for webhook in self._webhooks.values()]
        self._webhooks.clear()
        if ending or self._ending:
            await asyncio.wait([*ending, *self._ending.values()])
        await self._environment.states.close()
        if self._poster is not None:
            await self._poster.close()

    def engine_ended(self, error: BaseException) -> None:
        """Fail what waits for the engine."""
        self._requests.engine_ended(error)

    # ------------------------------------------------------------------ what operators ask

    def report_of(self, name: str) -> CallbackReport | None:
        """The status of a callback; None if it does not exist."""
        webhook = self._webhooks.get(name)
        return None if webhook is None else report.of_webhook(webhook, self._engine.broker)

    def reports(self) -> list[CallbackReport]:
        """The status of all callbacks, by name."""
        return [
            report.of_webhook(self._webhooks[name], self._engine.broker) for name in sorted(self._webhooks)
        ]

    def totals(self) -> CallbackTotals:
        """The numbers of all callbacks together, for metrics."""
        webhooks = list(self._webhooks.values())
        return report.totals(webhooks, self._engine.broker, self._hosts.counts(), self._totals)

    def pushes_of(self, name: str) -> list[Push] | None:
        """The last pushes of a callback, the newest first; None if it does not exist."""
        webhook = self._webhooks.get(name)
        return None if webhook is None else [report.of_push(push) for push in webhook.log.newest()]

    def push_now(self, name: str) -> bool:
        """Try again now what waits for its next attempt; False when there is no such callback."""
        webhook = self._webhooks.get(name)
        if webhook is not None:
            webhook.push_now()
        return webhook is not None

    def confirm(self, name: str, token: str) -> bool:
        """A receiver agrees to be called; False if it was not asked with this token."""
        webhook = self._webhooks.get(name)
        return webhook is not None and webhook.confirm(token)

    async def test(self, name: str) -> CallbackTest | None:
        """Send a signed sample to a callback; its request and the answer, None if it does not exist. Raises
        Refused when too many are tested."""
        webhook = self._webhooks.get(name)
        if webhook is None:
            return None
        callback = webhook.callback
        if callback.config_error:
            raise Refused("conflict", callback.config_error)
        event = cloud_event.of_json(
            f"tst_{secrets.token_hex(12)}",
            cloud_event.TEST_TYPE,
            f"{self._environment.source}{callback.address}",
            callback.address.lstrip("/"),
            time.time(),
            {"callback": callback.name, "note": "a test, not a message of the queue"},
        )
        with self._tests.taken(callback.owner, admin=False):
            return report.of_attempt(await webhook.sender.try_once(event))

    # ------------------------------------------------------------------ within

    def _begin(self, callback: Callback) -> None:
        webhook = self._webhooks[callback.name] = Webhook(callback, self._environment)
        former = self._ending.get(callback.name)
        if former is None:
            webhook.start()
        else:  # one of that name is still ending
            former.add_done_callback(lambda _: self._start_again(webhook))

    def _start_again(self, webhook: Webhook) -> None:
        if self._webhooks.get(webhook.callback.name) is webhook:
            webhook.start()

    async def _end(self, name: str, webhook: Webhook) -> None:
        await webhook.stop()
        self._environment.states.forget(name)
        await self._delete_subscription(name, 0)

    async def _delete_subscription(self, name: str, messages: int) -> None:
        try:
            await self._subscriptions.delete(name)
        except Refused as refused:
            self._notify(name, SUBSCRIPTION_KEPT, detail=refused.detail)
        else:
            if messages:
                self._notify(name, SUBSCRIPTION_DELETED, messages=messages)
        finally:
            self._ending.pop(name, None)

    def _the_poster(self) -> Poster:
        if self._poster is None:
            self._poster = self._make_poster()
        return self._poster

    def _make_http_client(self) -> Poster:
        # Here: it takes a third of a second, and most brokers have no callbacks.
        from broker_app.peers.http_client.client import HttpClient

        return HttpClient(AddressFilter(self._config.webhook_allow))

    def _host_event(self, host: str, event: Event, detail: str) -> None:
        self._notify(host, event, detail=detail)

    def _notify(self, name: str, event: Event, **fields: object) -> None:
        self.listeners(name, event, fields)


def _confirm_url(config: Config) -> str:
    """The address at which receivers agree later; empty if it is not known how they reach this broker."""
    if config.console_url is None:
        return ""
    parts = urlsplit(config.console_url)
    return f"{parts.scheme}://{parts.netloc}{config.base_path}{_CONFIRMATION}"
