"""Each kind of client hears what the broker ends.

A new way to end something of a client, and a new part that subscribes, each have to be added here.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from broker_app.base.internal_errors import internal_errors
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.model import Receiver, Subscription
from broker_app.core.topics.replay import Replay
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.remote_consumers import RemoteConsumers
from broker_app.net.auth.login import Identity
from broker_app.net.problems import PROBLEMS
from broker_app.reflex.local_services import QueueConsumer
from broker_app.reflex.shipped.copy_deletion import _Search
from mom_client import ConnectionLost, Refused
from tests.bridge.pair import Pair, remote_of
from tests.callback.webhooks.hooks import Hooks, callback
from tests.callback.webhooks.receiver import receiver
from tests.net.test_json_session import JsonClient
from tests.rest.test_events import Stream
from tests.support.awaiting import until
from tests.support.small_node import SmallNode, policy_of, small_node

ROOT = Path(__file__).resolve().parents[2] / "broker_app"
#: lists of an outcome that concern clients → what the receiver of a client is called with
OF_CLIENTS = {
    "touched": ("flush",),
    "fanouts": ("render", "send"),
    "ended": ("subscription_ended",),
    "closes": ("close",),
    "throttles": ("throttle",),
}
#: called by interceptors, not with an outcome
OF_INTERCEPTORS = ("hold",)
#: functions that end a subscription because its client asked for it or has gone
ASKED = ("unsubscribe", "delete_durable", "end_all", "check_begin_flow")
#: deliveries that are chosen, which no subscription brings
CHOSEN = "net/rest/messages/chosen.py"
QUEUE = "/queue/a"


def functions(folder: str, text: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function below a folder, with its file, of the files that have this text."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if text in source else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield str(file.relative_to(ROOT)), node


def calls(node: ast.AST, *names: str) -> bool:
    """Return whether a function has a call of something that ends with one of these names."""
    found = (ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(name == call or call.endswith(f".{name}") for call in found for name in names)


# ---------------------------------------------------------------------- what is ended


def test_each_list_of_an_outcome_that_concerns_clients_reaches_their_receivers() -> None:
    (made,) = (node for _, node in functions("core", "class Outcome:") if node.name == "__init__")
    annotated = [node for node in ast.walk(made) if isinstance(node, ast.AnnAssign)]
    concerned = {
        node.target.attr
        for node in annotated
        if isinstance(node.target, ast.Attribute)
        and {"Peer", "Subscription", "Fanout"}
        & {n.id for n in ast.walk(node.annotation) if isinstance(n, ast.Name)}
    }
    assert concerned == set(OF_CLIENTS)
    sent = (ROOT / "engine/output.py").read_text(encoding="utf-8")
    assert all(f"outcome.{name}" in sent for name in OF_CLIENTS)
    called = {method for methods in OF_CLIENTS.values() for method in methods} | set(OF_INTERCEPTORS)
    assert called == {name for name in vars(Receiver) if not name.startswith("_")}
    assert all(f"receiver.{method}(" in sent for method in called - set(OF_INTERCEPTORS))


def test_what_ends_a_subscription_unasked_says_so_with_a_problem() -> None:
    codes: set[object] = set()
    for file, node in functions("core", ".end("):
        ends = calls(node, "_subscriptions.end") or (
            file == "core/subscriptions.py" and calls(node, "self.end")
        )
        if ends and node.name not in ASKED:
            heard = calls(node, "out.ended.append")
            assert heard, f"{file} {node.name} ends a subscription, and its client hears nothing"
            refusals = [
                n for n in ast.walk(node) if isinstance(n, ast.Call) and ast.unparse(n.func) == "Refused"
            ]
            codes |= {ast.literal_eval(refusal.args[0]) for refusal in refusals}
    assert {cause.code for cause in CAUSES} == codes <= set(PROBLEMS)


# ---------------------------------------------------------------------- who hears it


class Cause(NamedTuple):
    """A reason of the broker to end a subscription: the code and words of its problem, and what ends it."""

    code: str
    words: str
    end: Callable[[Broker, Subscription], None]


def _end_outrun(broker: Broker, subscription: Subscription) -> None:
    """End a subscription whose history was trimmed. It is given a replay, which those of queues have not."""
    histories = broker.histories
    replay = subscription.replay = Replay("outrun", "a", 1, 0, [], broker.turn.limits)
    histories.replays[replay.key], histories.outrun[subscription] = subscription, QUEUE
    broker.subscriptions.end_outrun()
    histories.finish_replay(subscription)


CAUSES = (
    Cause("slow-consumer", "reads too slowly", lambda broker, one: broker.subscriptions.end_overrun(one)),
    Cause("history-gone", "history was trimmed", _end_outrun),
)


async def ended(node: SmallNode, cause: Cause, address: str = QUEUE) -> None:
    """Have the broker end the consumer of a queue, when it is there."""
    broker = node.node.broker

    def consumers() -> list[Subscription]:
        queue = broker.destinations.queues.get(address)
        return list(queue.consumers) if queue is not None else []

    await until(consumers)
    await node.node.registry.requests.inspect(partial(cause.end, broker, consumers()[0]))


async def stomp(node: SmallNode, cause: Cause) -> None:
    async with node.stomp("anna", reconnect=False) as client, client.subscribe(QUEUE) as messages:
        await ended(node, cause)
        with pytest.raises((Refused, ConnectionLost), match=cause.words):
            await anext(messages)


async def json_over_websocket(node: SmallNode, cause: Cause) -> None:
    client = await JsonClient(cast(Any, node.node), identity=Identity("anna")).open()
    await client.ask("subscribe", id="1", queue="a")
    await ended(node, cause)
    assert (await client.event("unsubscribed"))["type"] == f"/docs/problems/{cause.code}"
    await client.conversation.leave()


async def event_stream(node: SmallNode, cause: Cause) -> None:
    rest = cast(Any, SimpleNamespace(rest_api=node.node.rest))
    stream = Stream(rest, "/api/v1/queues/a/events")
    await ended(node, cause)
    await stream.task
    assert b"event: problem" in stream.text and cause.code.encode() in stream.text


async def long_poll(node: SmallNode, cause: Cause) -> None:
    async with node.rest("alice") as rest:
        polling = asyncio.ensure_future(rest.post("/queues/a/receive", json={"wait_s": 30}))
        await ended(node, cause)
        assert (await polling).json()["type"] == f"/docs/problems/{cause.code}"


async def webhook(node: SmallNode, cause: Cause) -> None:
    async with receiver() as there:
        hooks = Hooks(node)
        await hooks.have(callback(there.url))
        await ended(node, cause)
        await until(lambda: cause.words in str(hooks.report()))
        await hooks.have()


async def bridge(node: SmallNode, cause: Cause) -> None:
    both = Pair(node, node)
    await both.bridges(remote_of(node))
    async with node.stomp("anna") as client:
        await both.send(client, "x", "1")
        await until(lambda: both.flow("x")["state"] == "running")
        await ended(node, cause, both.source("x"))
        await until(lambda: cause.words in str(both.flow("x")))
    await both.bridges()


class _Consumer(QueueConsumer):
    def take(self, tag: int, message: Message) -> None:
        self.settle(tag)


async def service_of_the_broker(node: SmallNode, cause: Cause) -> None:
    consumer = _Consumer(node.node.engine, QUEUE)
    consumer.start()
    await ended(node, cause)
    await until(lambda: cause.words in consumer.error)
    consumer.stop()


async def search_for_copies(node: SmallNode, cause: Cause) -> None:
    async with node.stomp("anna") as client:
        await client.send(QUEUE, "1")
    missing: list[int] = []
    _Search(node.node.engine, QUEUE, {"copy"}, 1, cast(Any, missing.append))
    await ended(node, cause)
    await until(lambda: missing == [1])


async def request_of_the_broker(node: SmallNode, cause: Cause) -> None:
    """It leaves as soon as it is there, and has nobody to tell."""
    requests = EngineClient(node.node.engine, "test")
    await requests.ask(c.Subscribe(requests.peer, "1", QUEUE), lambda _: None)
    await ended(node, cause)
    await until(lambda: not requests.peer.subscriptions)


async def other_broker(node: SmallNode, cause: Cause) -> None:
    """A broker of the cluster that subscribes for its own consumers."""
    sent: list[f.Frame] = []
    consumers = RemoteConsumers(node.node.engine, "b2", sent.append, lambda _: None)
    consumers.subscribe(f.Subscribe(1, QUEUE, 1, 10))
    await ended(node, cause)
    await until(lambda: any(isinstance(frame, f.NotSubscribed) for frame in sent))
    consumers.end()


#: module that subscribes → a client of it, which hears that its subscription was ended
KINDS: dict[str, Callable[[SmallNode, Cause], Any]] = {
    "net/stomp/subscriptions.py": stomp,
    "net/json/session.py": json_over_websocket,
    "net/rest/messages/message_stream.py": event_stream,
    "net/rest/messages/receive.py": long_poll,
    "features/callbacks/webhooks/deliverer.py": webhook,
    "features/callbacks/webhooks/durable_subscription.py": request_of_the_broker,
    "features/bridge/flow_parts.py": bridge,
    "features/cluster/links/remote_consumers.py": other_broker,
    "reflex/local_services.py": service_of_the_broker,
    "reflex/shipped/copy_deletion.py": search_for_copies,
}


def test_each_part_that_subscribes_is_known() -> None:
    subscribing = {
        file for file, node in functions(".", "Subscribe(") if calls(node, "c.Subscribe", "Subscribe")
    }
    # What `remote_queues` sends is carried out by `remote_consumers` of another broker.
    assert subscribing - {"features/cluster/links/remote_queues.py"} == set(KINDS)
    collecting = {
        file for file, node in functions("net", "open_collection(") if calls(node, "open_collection")
    }
    shared = {
        "net/json/subscriptions.py",
        "net/rest/messages/message_stream.py",
        "net/rest/messages/receive.py",
    }
    assert collecting - {CHOSEN} == shared, "clients that share the peer of REST"


@contextlib.asynccontextmanager
async def node_of(path: Path) -> AsyncIterator[SmallNode]:
    users = policy_of(users={"anna": (), "alice": (), "bridge": ()})
    async with small_node(path, users, webhook_allow=("127.0.0.1",)) as node:
        yield node


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
@pytest.mark.parametrize("module", KINDS)
async def test_each_kind_of_client_hears_that_its_subscription_was_ended(
    tmp_path: Path, module: str, cause: Cause
) -> None:
    errors = internal_errors.total
    async with node_of(tmp_path) as node:
        await KINDS[module](node, cause)
    assert internal_errors.total == errors
