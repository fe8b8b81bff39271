"""stomp.py, unchanged, as its users have it: versions 1.0, 1.1 and 1.2 over TCP, and 1.2 over WebSocket."""

from __future__ import annotations

import itertools
import queue
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import stomp

from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.samples import sample

WAIT_S = patient(20.0)
MIB = 1024 * 1024
CONNECTIONS = {
    "1.0": stomp.Connection10,
    "1.1": stomp.Connection11,
    "1.2": stomp.Connection12,
    "1.2 over WebSocket": stomp.WSStompConnection,
}
VERSIONS = sample(CONNECTIONS, 2)
ACKING = [name for name in VERSIONS if name != "1.0"]


class Inbox(stomp.ConnectionListener):  # type: ignore[misc]
    """Everything that comes, in queues that a test can wait on."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()
        self.connected: queue.Queue[Any] = queue.Queue()
        self.beats = 0

    def on_connected(self, frame: Any) -> None:
        self.connected.put(frame)

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)

    def on_heartbeat(self) -> None:
        self.beats += 1


class Client:
    """A stomp.py connection with its inbox."""

    def __init__(self, broker: BrokerProcess, name: str, **options: Any) -> None:
        self.name = name
        port = broker.port if "WebSocket" in name else broker.stomp_port
        if "WebSocket" in name:
            options |= {"ws_path": "/ws"}
        # auto_decode would turn bodies into text; these tests compare bytes.
        self.connection = CONNECTIONS[name]([(broker.host, port)], auto_decode=False, **options)
        self.inbox = Inbox()
        self.connection.set_listener("inbox", self.inbox)
        self.connection.connect(broker.user, broker.password, wait=True)
        self._receipts = itertools.count(1)

    def confirmed(self, action: str, *args: Any, **kwargs: Any) -> None:
        """Do something with a receipt and wait for it."""
        receipt = f"r{next(self._receipts)}"
        getattr(self.connection, action)(*args, receipt=receipt, **kwargs)
        assert self.inbox.receipts.get(timeout=WAIT_S) == receipt

    def subscribe(self, destination: str, ack: str = "auto", id: str = "1", **headers: str) -> None:
        if self.name == "1.0":
            self.connection.subscribe(destination, ack=ack, headers={"receipt": "s", **headers})
        else:
            self.connection.subscribe(destination, id=id, ack=ack, headers={"receipt": "s", **headers})
        assert self.inbox.receipts.get(timeout=WAIT_S) == "s"

    def message(self) -> Any:
        return self.inbox.messages.get(timeout=WAIT_S)

    def ack(self, frame: Any, action: str = "ack", **more: Any) -> None:
        """ACK or NACK in the form of the version."""
        if self.name == "1.0":
            getattr(self.connection, action)(frame.headers["message-id"], **more)
        elif self.name == "1.1":
            getattr(self.connection, action)(
                frame.headers["message-id"], frame.headers["subscription"], **more
            )
        else:
            getattr(self.connection, action)(frame.headers["ack"], **more)

    def close(self) -> None:
        if self.connection.is_connected():
            self.connection.disconnect()


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Client]:
    made = Client(broker, request.param)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A destination name of its own for each test."""
    return f"interop.{uuid.uuid4().hex}"


def no_more(client: Client, name: str) -> None:
    """Nothing else waits: a marker sent now is the next to come."""
    client.connection.send(f"/queue/{name}", "marker")
    assert client.message().body == b"marker"


def test_it_connects_with_its_version(client: Client) -> None:
    headers = client.inbox.connected.get(timeout=WAIT_S).headers
    assert headers["version"] == client.name[:3]
    assert headers["server"].startswith("MOM/")


def test_a_wrong_passcode_is_refused(broker: BrokerProcess) -> None:
    connection = stomp.Connection12([(broker.host, broker.stomp_port)], reconnect_attempts_max=1)
    inbox = Inbox()
    connection.set_listener("inbox", inbox)
    with pytest.raises(stomp.exception.ConnectFailedException):
        connection.connect("admin", "wrong", wait=True)
    assert "login or passcode is wrong" in inbox.errors.get(timeout=WAIT_S).headers["message"]


def test_heart_beats_go_both_ways(broker: BrokerProcess, start_broker: Any) -> None:
    own = start_broker("--heartbeat-ms", "200")
    client = Client(own, "1.2", heartbeats=(200, 200))
    beats: queue.Queue[None] = queue.Queue()
    client.inbox.on_heartbeat = lambda: beats.put(None)  # type: ignore[method-assign]
    for _ in range(4):
        beats.get(timeout=WAIT_S)
    # The broker would have ended a connection without beats after 400 ms.
    assert client.connection.is_connected()
    client.confirmed("send", "/queue/beats", "still here")
    client.close()


def test_a_message_with_receipt_arrives_unchanged(client: Client, name: str) -> None:
    client.confirmed(
        "send", f"/queue/{name}", "hällo wörld", content_type="text/plain", headers={"tenant": "acme"}
    )
    client.subscribe(f"/queue/{name}")
    message = client.message()
    assert message.body == "hällo wörld".encode()
    assert message.headers["tenant"] == "acme"
    assert message.headers["content-type"] == "text/plain"
    assert message.headers["destination"] == f"/queue/{name}"
    assert message.headers["redelivered"] == "false"


def test_auto_settles_by_itself(client: Client, name: str, broker: BrokerProcess) -> None:
    for number in range(10):
        client.confirmed("send", f"/queue/{name}", str(number))
    client.subscribe(f"/queue/{name}")
    assert [client.message().body for _ in range(10)] == [b"%d" % number for number in range(10)]
    client.close()
    other = Client(broker, "1.2")
    other.subscribe(f"/queue/{name}")
    no_more(other, name)
    other.close()


def test_client_acknowledges_all_up_to_one(client: Client, name: str, broker: BrokerProcess) -> None:
    for number in range(5):
        client.confirmed("send", f"/queue/{name}", str(number))
    client.subscribe(f"/queue/{name}", ack="client")
    frames = [client.message() for _ in range(5)]
    client.ack(frames[2], receipt="a")
    assert client.inbox.receipts.get(timeout=WAIT_S) == "a"
    client.close()
    other = Client(broker, "1.2")
    other.subscribe(f"/queue/{name}")
    rest = [other.message() for _ in range(2)]
    assert [frame.body for frame in rest] == [b"3", b"4"]
    assert {frame.headers["redelivered"] for frame in rest} == {"true"}
    other.close()


@pytest.mark.parametrize("client", ACKING, indirect=True)
def test_client_individual_acknowledges_one(client: Client, name: str, broker: BrokerProcess) -> None:
    for number in range(5):
        client.confirmed("send", f"/queue/{name}", str(number))
    client.subscribe(f"/queue/{name}", ack="client-individual")
    frames = [client.message() for _ in range(5)]
    client.ack(frames[2], receipt="a")
    assert client.inbox.receipts.get(timeout=WAIT_S) == "a"
    client.close()
    other = Client(broker, "1.2")
    other.subscribe(f"/queue/{name}")
    assert [other.message().body for _ in range(4)] == [b"0", b"1", b"3", b"4"]
    other.close()


@pytest.mark.parametrize("client", ACKING, indirect=True)
def test_nack_returns_a_message_to_its_place(client: Client, name: str) -> None:
    for number in range(3):
        client.confirmed("send", f"/queue/{name}", str(number))
    client.subscribe(f"/queue/{name}", ack="client-individual", credit="1")
    first = client.message()
    client.ack(first, "nack")
    again = client.message()
    assert (again.body, again.headers["redelivered"], again.headers["attempt"]) == (b"0", "true", "2")
    client.ack(again)
    assert client.message().body == b"1"


@pytest.mark.parametrize("client", ACKING, indirect=True)
def test_nack_without_requeue_goes_to_the_dead_letters(client: Client, name: str) -> None:
    client.confirmed("send", f"/queue/{name}", "bad")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    client.ack(client.message(), "nack", requeue="false")
    client.subscribe(f"/queue/{name}.dead", id="2")
    dead = client.message()
    assert (dead.body, dead.headers["origin"], dead.headers["dead-reason"]) == (
        b"bad",
        f"/queue/{name}",
        "REJECTED",
    )


def test_a_committed_transaction_appears_whole(client: Client, name: str) -> None:
    client.subscribe(f"/queue/{name}")
    transaction = client.connection.begin()
    for number in range(3):
        client.connection.send(f"/queue/{name}", str(number), transaction=transaction)
    client.confirmed("send", f"/queue/{name}", "outside")
    assert client.message().body == b"outside"
    client.connection.commit(transaction)
    assert [client.message().body for _ in range(3)] == [b"0", b"1", b"2"]


def test_an_aborted_transaction_leaves_nothing(client: Client, name: str) -> None:
    client.subscribe(f"/queue/{name}")
    transaction = client.connection.begin()
    client.connection.send(f"/queue/{name}", "never", transaction=transaction)
    client.connection.abort(transaction)
    no_more(client, name)


@pytest.mark.parametrize("client", ACKING, indirect=True)
def test_an_acknowledgement_in_an_aborted_transaction_does_not_count(client: Client, name: str) -> None:
    client.confirmed("send", f"/queue/{name}", "one")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    frame = client.message()
    transaction = client.connection.begin()
    client.ack(frame, transaction=transaction)
    client.connection.abort(transaction)
    client.ack(frame, "nack")
    assert client.message().headers["redelivered"] == "true"


def test_wildcards_match_levels(client: Client, name: str) -> None:
    client.subscribe(f"/topic/{name}.*.price", id="1")
    client.subscribe(f"/topic/{name}.>", id="2")
    client.connection.send(f"/topic/{name}.acme.price", "both")
    got = [client.message() for _ in range(2)]
    assert [frame.body for frame in got] == [b"both", b"both"]
    client.connection.send(f"/topic/{name}.acme.price.low", "rest only")
    only = client.message()
    assert only.body == b"rest only"
    # A client of 1.0 that names no id is answered without one.
    assert only.headers.get("subscription", f"/topic/{name}.>") in ("2", f"/topic/{name}.>")


def test_a_request_is_answered_on_a_temporary_queue(client: Client, name: str, broker: BrokerProcess) -> None:
    server = Client(broker, "1.2")
    server.subscribe(f"/queue/{name}")
    client.connection.send(
        f"/queue/{name}", "question", headers={"reply-to": "/temp-queue/answers", "correlation-id": "c1"}
    )
    request = server.message()
    assert request.headers["reply-to"] != "/temp-queue/answers"
    server.connection.send(request.headers["reply-to"], "answer", headers={"correlation-id": "c1"})
    reply = client.message()
    assert (reply.body, reply.headers["correlation-id"]) == (b"answer", "c1")
    server.close()


def test_a_temporary_queue_may_be_subscribed_to_first(
    client: Client, name: str, broker: BrokerProcess
) -> None:
    client.subscribe("/temp-queue/mine", id="t")
    client.subscribe(f"/queue/{name}", id="q")
    client.connection.send(f"/queue/{name}", "question", headers={"reply-to": "/temp-queue/mine"})
    client.connection.send(client.message().headers["reply-to"], "answer")
    assert client.message().body == b"answer"


def test_sixteen_mebibytes_arrive_unchanged(client: Client, name: str) -> None:
    # Over WebSocket it sends text unless it is asked for binary messages, and text is UTF-8.
    bytes_ = bytes(range(128 if "WebSocket" in client.name else 256))
    body = bytes_ * (16 * MIB // len(bytes_))
    client.confirmed("send", f"/queue/{name}", body)
    client.subscribe(f"/queue/{name}")
    assert client.message().body == body


def test_bodies_may_hold_nul_bytes(client: Client, name: str) -> None:
    client.confirmed("send", f"/queue/{name}", b"\0a\0\0b\0")
    client.subscribe(f"/queue/{name}")
    assert client.message().body == b"\0a\0\0b\0"


def test_headers_may_hold_any_text(client: Client, name: str) -> None:
    text = "Grüße 你好 🙂" if client.name == "1.0" else "Grüße: 你好 \\ 🙂\nnext line"
    client.confirmed("send", f"/queue/{name}", "x", headers={"text": text, "größe": "5"})
    client.subscribe(f"/queue/{name}")
    headers = client.message().headers
    assert headers["text"] == text
    assert headers["größe"] == "5"


@pytest.mark.parametrize("client", ACKING, indirect=True)
def test_unsubscribing_ends_deliveries_and_returns_unsettled_messages(client: Client, name: str) -> None:
    client.confirmed("send", f"/queue/{name}", "one")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    client.message()
    client.connection.unsubscribe(id="1")
    client.subscribe(f"/queue/{name}", id="2")
    again = client.message()
    assert (again.headers["subscription"], again.headers["redelivered"]) == ("2", "true")


def test_priorities_and_expiry(client: Client, name: str) -> None:
    client.confirmed("send", f"/queue/{name}", "expired", headers={"expires": "1000"})
    client.confirmed("send", f"/queue/{name}", "low", headers={"priority": "1"})
    client.confirmed("send", f"/queue/{name}", "high", headers={"priority": "9"})
    client.subscribe(f"/queue/{name}")
    assert [client.message().body for _ in range(2)] == [b"high", b"low"]


def test_a_selector_chooses_messages(client: Client, name: str) -> None:
    for colour, size in (("blue", "1"), ("red", "7"), ("red", "2")):
        client.confirmed("send", f"/queue/{name}", colour + size, headers={"colour": colour, "size": size})
    client.subscribe(f"/queue/{name}", selector="colour = 'red' AND size < 5", id="2")
    assert client.message().body == b"red2"


def test_a_group_stays_with_one_consumer(broker: BrokerProcess, name: str) -> None:
    one, two = Client(broker, "1.2"), Client(broker, "1.2")
    for each in (one, two):
        each.subscribe(f"/queue/{name}", "client-individual")
    for number in range(4):
        one.confirmed("send", f"/queue/{name}", str(number), headers={"JMSXGroupID": "g"})
    assert [one.message().body for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    one.close()
    assert [two.message().body for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    two.close()


def test_an_exclusive_consumer_is_followed_by_the_next(broker: BrokerProcess, name: str) -> None:
    one, two = Client(broker, "1.2"), Client(broker, "1.2")
    for each in (one, two):
        each.subscribe(f"/queue/{name}", **{"activemq.exclusive": "true"})
    one.confirmed("send", f"/queue/{name}", "1")
    assert one.message().body == b"1"
    one.close()
    two.confirmed("send", f"/queue/{name}", "2")
    assert two.message().body == b"2"
    two.close()


def test_disconnect_is_answered(client: Client) -> None:
    client.connection.disconnect(receipt="bye")
    assert client.inbox.receipts.get(timeout=WAIT_S) == "bye"


RABBITMQ = {"durable": "true", "auto-delete": "false"}
ACTIVEMQ = {"activemq.subscriptionName": "news"}


@pytest.mark.parametrize("dialect", [RABBITMQ, ACTIVEMQ], ids=["RabbitMQ", "ActiveMQ"])
def test_a_durable_subscription_keeps_its_messages(
    broker: BrokerProcess, name: str, dialect: dict[str, str]
) -> None:
    def client() -> Client:
        made = Client(broker, "1.1")
        made.connection.disconnect()
        made.inbox.receipts.get(timeout=WAIT_S)
        made.inbox.connected.get(timeout=WAIT_S)
        login = {"client-id": name} if dialect is ACTIVEMQ else {}
        made.connection.connect(broker.user, broker.password, wait=True, headers=login)
        return made

    topic = f"/topic/{name}"
    reader = client()
    reader.subscribe(topic, "client-individual", "news", **dialect)
    reader.close()
    sender = client()
    for number in range(3):
        sender.confirmed("send", topic, str(number))
    reader = client()
    reader.subscribe(topic, "client-individual", "news", **dialect)
    for number in range(3):
        message = reader.message()
        assert (message.body, message.headers["destination"]) == (b"%d" % number, topic)
        reader.ack(message)
    reader.connection.unsubscribe("news", headers={"receipt": "gone", **dialect})
    assert reader.inbox.receipts.get(timeout=WAIT_S) == "gone"
    sender.confirmed("send", topic, "after the end")
    reader.subscribe(topic, "client-individual", "news", **dialect)
    sender.confirmed("send", topic, "anew")
    assert reader.message().body == b"anew"
    reader.close()
    sender.close()
