"""System topics: their content, their subscribers, and their frequency."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from broker_app.base.deadline import TURN_S
from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.core.outcome import Outcome
from broker_app.core.policy import REJECT_NEWEST, DestinationPolicy, Policies
from broker_app.telemetry import Statistics, SystemTopics
from broker_app.telemetry import destination_stats_feed as moved
from broker_app.telemetry import system_topics as told
from broker_app.telemetry.system_messages import Receiving, SystemMessages
from tests.core.stage import Client, Stage

Body = dict[str, Any]


class Everything:
    """All may see all."""

    def kind(self, topic: str) -> str:
        return topic

    def viewer(self, principal: Any, topic: str) -> Any:
        return lambda topic, facts: facts

    def owner(self, user: str) -> None:
        return None


class Heard(Stage):
    """A stage whose broker publishes system topics when the test lets a second pass."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.published: list[str] = []
        self.connections: list[Body] = []
        self.bridges: list[Body] = []
        self.callbacks: list[Body] = []
        self.alerts: list[Body] = []
        self.jobs: list[Body] = []
        self.mirrors: Body | None = None
        self.cluster: Body | None = None
        self.voice = self.client("$mom")
        self.statistics = Statistics(self.broker, "mom", "1")
        #: seconds that each look at the clock takes
        self.look_s = 0.0
        self.clock = 0.0
        #: turns of the loop that are due
        self.turns: deque[Callable[[], None]] = deque()
        self.messages = SystemMessages(self.broker, self, Everything(), self.turns.append, self.read_clock)
        self.system_topics = SystemTopics(
            self.broker, self.statistics, self.messages,
            name="mom", boot="b",
            connections=lambda: self.connections, bridges=lambda: self.bridges, jobs=lambda: self.jobs,
            callbacks=lambda: self.callbacks,
            alerts=lambda: self.alerts, mirrors=lambda: self.mirrors,
            cluster=lambda: self.cluster,
            clock=lambda: self.now_us / 1e6,
        )  # fmt: skip

    def decide(self, *run: c.Command) -> Outcome:
        outcome = super().decide(*run)
        self.system_topics.on_events(outcome.take_events())
        return outcome

    def read_clock(self) -> float:
        self.clock += self.look_s
        return self.clock

    def take_turns(self) -> None:
        while self.turns:
            self.turns.popleft()()

    def deliver(self, subscription: Receiving, entries: list[tuple[Envelope, bytes]]) -> None:
        self.published += [envelope.address for envelope, _ in entries]
        self.decide(c.DeliverTo(subscription, entries))

    def second(self) -> None:
        self.pass_time(1_000)
        self.statistics.sample(self.now_us / 1e6)
        self.system_topics.publish()
        self.take_turns()

    def listener(self, *filters: str, snapshot: bool = False) -> Client:
        client = self.client("listener")
        for number, name in enumerate(filters):
            client.do(
                c.Subscribe(
                    client.peer, str(number), f"/topic/{name}", c.AUTO, snapshot=snapshot, render_key="look"
                )
            )
        self.take_turns()
        return client


def bodies(client: Client) -> list[tuple[str, Body]]:
    """(topic, body) of what a client got since the last call."""
    got, client.got = client.got, []
    return [
        (message.envelope.address.removeprefix("/topic/"), json.loads(message.body)) for _, _, message in got
    ]


def events(client: Client) -> list[tuple[str, str, Body]]:
    """(topic, type, data) of the events among them."""
    return [(topic, body["type"], body["data"]) for topic, body in bodies(client) if "specversion" in body]


def test_nothing_is_recorded_or_published_without_subscribers(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Heard()
    monkeypatch.setattr(stage.statistics, "latest", lambda: pytest.fail("no subscriber"))
    monkeypatch.setattr(stage.statistics, "full", lambda address: pytest.fail("no subscriber"))
    taker = stage.client()
    taker.subscribe("/queue/a")
    stage.listener("t.>", ">")
    stage.client().publish("/queue/a")
    taker.reject(*taker.tags)
    outcome = stage.decide(c.Subscribe(taker.peer, "2", "/queue/b"))
    assert not outcome.events
    assert not outcome.dead_letters
    stage.second()
    assert stage.published == []
    assert not stage.system_topics._events


def test_what_takes_long_is_sent_in_turns_of_the_loop_and_in_order() -> None:
    stage = Heard()
    listeners = [stage.listener("$mom.dest.created") for _ in range(20)]
    for number in range(30):
        stage.client().subscribe(f"/queue/{number}")
    stage.pass_time(1_000)
    stage.look_s = TURN_S / 10
    stage.system_topics.publish()
    assert stage.messages.is_publishing
    turns = 0
    while stage.turns:
        before = len(stage.published)
        stage.turns.popleft()()
        turns += 1
        assert len(stage.published) - before <= 10
        if turns == 3:
            stage.client().subscribe("/queue/last")
            stage.system_topics.publish()  # waits for those of the former second
    assert turns >= 20 * 30 / 10
    stage.look_s = 0.0
    stage.second()
    for listener in listeners:
        found = [data["destination"] for _, _, data in events(listener)]
        assert found == [f"/queue/{number}" for number in (*range(30), "last")]


def test_a_snapshot_is_sent_before_what_happens_after_it_although_it_takes_turns() -> None:
    stage = Heard()
    for number in range(30):
        stage.client().subscribe(f"/queue/{number}")
    stage.look_s = TURN_S / 10
    listener = stage.client()
    listener.do(
        c.Subscribe(listener.peer, "1", "/topic/$mom.consumer.>", c.AUTO, snapshot=True, render_key="look")
    )
    stage.turns.popleft()()
    assert stage.turns
    stage.client().subscribe("/queue/0")
    stage.second()
    found = bodies(listener)
    assert [body["data"]["items"][0]["destination"] for _, body in found[:30]] == [
        f"/queue/{number}" for number in range(30)
    ]
    assert [body["type"] for _, body in found[30:]] == ["mom.consumer.joined"]


def test_topics_without_subscribers_are_not_published_although_others_are() -> None:
    stage = Heard()
    listener = stage.listener("$mom.dest.created")
    stage.client().subscribe("/queue/a")
    stage.second()
    assert stage.published == ["/topic/$mom.dest.created"]
    assert events(listener) == [("$mom.dest.created", "mom.dest.created", {"destination": "/queue/a"})]
    stage.second()
    assert events(listener) == []


def test_the_numbers_of_all_and_of_one_destination_come_once_a_second() -> None:
    stage = Heard()
    listener = stage.listener("$mom.stats", "$mom.stats.orders.new")
    for _ in range(3):
        stage.client().publish("/queue/orders.new")
    stage.client().publish("/queue/other")
    stage.second()
    (_, node), (topic, one) = bodies(listener)
    assert node["node"]["in_rate"] == 4.0
    assert {row["name"] for row in node["destinations"]} == {"/queue/orders.new", "/queue/other"}
    assert topic == "$mom.stats.orders.new"
    assert (one["name"], one["in_rate"], one["published"], one["time"]) == (
        "/queue/orders.new", 3.0, 3, node["time"],
    )  # fmt: skip
    stage.second()
    (_, again), (_, rest) = bodies(listener)
    assert again["destinations"][0]["in_rate"] == rest["in_rate"] == 0.0, "that it became idle is reported"
    stage.second()
    assert [topic for topic, _ in bodies(listener)] == ["$mom.stats"]


def test_an_event_is_a_cloud_event() -> None:
    stage = Heard()
    listener = stage.listener("$mom.dest.>")
    stage.client().subscribe("/queue/a")
    stage.second()
    (_, _, message) = listener.got[0]
    assert message.envelope.block == b"content-type:application/cloudevents+json\n"
    assert not message.envelope.persistent
    event = json.loads(message.body)
    assert event == {
        "specversion": "1.0", "id": "b-1", "source": "mom://mom", "type": "mom.dest.created",
        "subject": "/queue/a", "time": "2027-01-15T08:00:00.000Z", "datacontenttype": "application/json",
        "sequence": "0000000000000001", "data": {"destination": "/queue/a"},
    }  # fmt: skip


def test_destinations_come_and_go() -> None:
    stage = Heard(idle_queue_ms=3_000)
    listener = stage.listener("$mom.dest.>")
    taker = stage.client()
    taker.subscribe("/queue/a")
    taker.subscribe("/temp-queue/mine", id="2")
    taker.disconnect()
    for _ in range(8):
        stage.second()
    stage.client().publish("/queue/b")
    stage.decide(c.DeleteQueue(stage.client().peer, "/queue/b", True, object()))
    stage.second()
    assert [(type_, data) for _, type_, data in events(listener)] == [
        ("mom.dest.created", {"destination": "/queue/a"}),
        ("mom.dest.deleted", {"destination": "/queue/a", "reason": "unused"}),
        ("mom.dest.created", {"destination": "/queue/b"}),
        ("mom.dest.deleted", {"destination": "/queue/b", "reason": "deleted"}),
    ]


def test_consumers_come_and_go_by_destination() -> None:
    stage = Heard()
    listener = stage.listener("$mom.consumer.>")
    taker = stage.client("anna")
    taker.subscribe("/queue/a", credit=7)
    taker.subscribe("/topic/t.*", c.AUTO, id="2")
    taker.subscribe("/topic/$mom.stats", c.AUTO, id="3")
    taker.subscribe("/queue/a", id="brief")
    taker.unsubscribe("brief")
    stage.second()
    first, second = events(listener)
    assert first[:2] == ("$mom.consumer.a", "mom.consumer.joined")
    assert (first[2]["user"], first[2]["credit"], first[2]["consumers"]) == ("anna", 7, 1)
    assert (second[0], second[2]["destination"]) == ("$mom.consumer.t.%2A", "/topic/t.*")
    taker.disconnect()
    stage.second()
    assert [(topic, type_) for topic, type_, _ in events(listener)] == [
        ("$mom.consumer.a", "mom.consumer.left"),
        ("$mom.consumer.t.%2A", "mom.consumer.left"),
    ]


def test_dead_letters_are_published_once_a_second_however_many_they_are() -> None:
    stage = Heard()
    listener = stage.listener("$mom.dead.a")
    taker = stage.client()
    taker.subscribe("/queue/a", credit=100)
    for number in range(50):
        stage.client().publish("/queue/a", b"%d" % number)
    taker.reject(*taker.tags[:20], detail="first")
    taker.reject(*taker.tags, detail="last")
    stage.second()
    ((topic, type_, data),) = events(listener)
    assert (topic, type_) == ("$mom.dead.a", "mom.dead")
    assert (data["destination"], data["reason"], data["messages"]) == ("/queue/a", "REJECTED", 50)
    assert data["last_detail"] == "last"


def test_a_full_destination_is_published_once_and_again_when_it_has_space() -> None:
    stage = Heard()
    policy = DestinationPolicy(max_messages=2, limit_behavior=REJECT_NEWEST)
    stage.decide(c.Reconfigure(Policies(exact={"/queue/a": policy})))
    listener = stage.listener("$mom.dest.full")
    for _ in range(5):
        stage.decide(stage.client().sending("/queue/a", b"x", persistent=False))
    stage.second()
    ((_, _, data),) = events(listener)
    assert (data["destination"], data["full"]) == ("/queue/a", True)
    assert [body["data"]["items"][0]["destination"] for _, body in bodies(
        stage.listener("$mom.dest.full", snapshot=True)
    )] == ["/queue/a"]  # fmt: skip
    stage.client().purge("/queue/a")
    stage.second()
    ((_, _, data),) = events(listener)
    assert data["full"] is False


def test_slow_consumers_and_their_recovery_are_published() -> None:
    stage = Heard()
    listener = stage.listener("$mom.conn.slow")
    taker = stage.client("anna")
    taker.subscribe("/queue/a", credit=1)
    for _ in range(3):
        stage.client().publish("/queue/a")
    for _ in range(5):
        stage.second()
    ((_, _, data),) = events(listener)
    assert (data["slow"], data["ended"], data["user"], data["destination"]) == (
        True,
        False,
        "anna",
        "/queue/a",
    )
    while taker.tags:
        taker.settle(*taker.tags)
    for _ in range(5):
        stage.second()
    ((_, _, data),) = events(listener)
    assert (data["slow"], data["ended"]) == (False, False)


def test_connections_are_published_with_the_reason_of_their_end() -> None:
    stage = Heard()
    stage.system_topics.connection("opened", {"id": "unheard"})
    listener = stage.listener("$mom.conn.*")
    stage.system_topics.connection("opened", {"id": "c1", "user": "anna"})
    stage.system_topics.connection("closed", {"id": "c1", "user": "anna"}, "the client left")
    stage.second()
    opened, closed = events(listener)
    assert opened == ("$mom.conn.opened", "mom.conn.opened", {"id": "c1", "user": "anna"})
    assert closed[2]["reason"] == "the client left"


def test_a_snapshot_contains_the_status_before_later_changes() -> None:
    stage = Heard()
    stage.connections = [{"id": "c1"}]
    taker = stage.client("anna")
    taker.subscribe("/queue/a")
    taker.subscribe("/topic/t", c.AUTO, id="2")
    stage.client().publish("/queue/b")
    stage.second()
    listener = stage.listener("$mom.>", snapshot=True)
    got = dict(bodies(listener))
    assert set(got) == {
        "$mom.node", "$mom.stats", "$mom.stats.a", "$mom.stats.b", "$mom.dest.created", "$mom.dest.full",
        "$mom.alert", "$mom.conn.opened", "$mom.conn.slow", "$mom.consumer.a", "$mom.consumer.t",
    }  # fmt: skip
    made = got["$mom.dest.created"]
    assert (made["type"], made["snapshot"]) == ("mom.dest.created.snapshot", True)
    assert made["data"] == {
        "items": [{"destination": "/queue/a"}, {"destination": "/queue/b"}],
        "complete": True,
    }
    assert got["$mom.conn.opened"]["data"]["items"] == [{"id": "c1"}]
    assert got["$mom.consumer.a"]["data"]["items"][0]["user"] == "anna"
    taker.subscribe("/queue/c", id="3")
    stage.second()
    changes = {type_: data for _, type_, data in events(listener)}
    assert changes["mom.dest.created"] == {"destination": "/queue/c"}
    assert events(stage.listener("$mom.dest.created")) == [], "no other client receives a snapshot"


def test_a_snapshot_is_bounded() -> None:
    stage = Heard()
    producer = stage.client()
    for number in range(told.MAX_ITEMS + 5):
        producer.publish(f"/queue/{number}")
    stage.second()
    ((_, made),) = bodies(stage.listener("$mom.dest.created", snapshot=True))
    assert len(made["data"]["items"]) == told.MAX_ITEMS
    assert made["data"]["complete"] is False


def test_more_events_than_a_second_may_have_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "MAX_EVENTS", 10)
    stage = Heard()
    listener = stage.listener("$mom.dest.created")
    producer = stage.client()
    for number in range(25):
        producer.publish(f"/queue/{number}")
    stage.second()
    got = bodies(listener)
    assert len(got) == 10
    assert got[-1][1]["missed"] == 15


def test_names_that_do_not_fit_into_a_topic_are_cut() -> None:
    stage = Heard()
    listener = stage.listener("$mom.>")
    stage.client().subscribe("/queue/" + "x" * 255)
    stage.second()
    (joined,) = [data for _, type_, data in events(listener) if type_ == "mom.consumer.joined"]
    assert joined["destination"] == "/queue/" + "x" * 255


# ---------------------------------------------------------------------- bridges


def bridge(name: str = "west", **facts: Any) -> Body:
    flow = {"queue": "orders", "state": "running", "paused": False, "depth": 0, "error": None, "sent": 7}
    return {
        "name": name, "address": "stomp://w:61613", "desired": "running", "drained": False,
        "state": "running", "health": "running", "error": None, "backlog": 0, "flows": [flow], **facts,
    }  # fmt: skip


def test_a_bridge_is_published_when_it_changes_and_its_figures_every_five_seconds() -> None:
    stage = Heard()
    listener = stage.listener("$mom.bridge.>")
    stage.bridges = [bridge()]
    stage.second()
    ((topic, type_, data),) = events(listener)
    assert (topic, type_, data["state"]) == ("$mom.bridge.west", "mom.bridge", "running")
    assert data["flows"] == [
        {"queue": "orders", "state": "running", "paused": False, "depth": 0, "error": None}
    ]
    stage.second()
    assert events(listener) == [], "nothing is new"
    for backlog in range(1, 4):
        stage.bridges = [bridge(backlog=backlog)]
        stage.second()
    assert events(listener) == [], "figures alone wait"
    stage.second()
    assert [data["backlog"] for _, _, data in events(listener)] == [3]
    error = {"code": "LOGIN", "detail": "no", "at": "2026-01-01T00:00:00.000Z"}
    stage.bridges = [bridge(backlog=3, state="retrying", error=error)]
    stage.second()
    assert [data["error"]["code"] for _, _, data in events(listener)] == ["LOGIN"], (
        "a new state does not wait"
    )
    stage.bridges = []
    stage.second()
    assert [data["state"] for _, _, data in events(listener)] == ["gone"]


def test_a_snapshot_contains_the_status_of_each_bridge() -> None:
    stage = Heard()
    stage.bridges = [bridge("west"), bridge("east")]
    listener = stage.listener("$mom.bridge.west", snapshot=True)
    ((topic, body),) = bodies(listener)
    assert (topic, body["type"], body["snapshot"]) == ("$mom.bridge.west", "mom.bridge.west.snapshot", True)
    assert [one["name"] for one in body["data"]["items"]] == ["west"]


def test_bridges_are_not_read_without_subscribers() -> None:
    stage = Heard()
    stage.system_topics._bridge_changes.read = lambda: pytest.fail("no subscriber")
    stage.listener("$mom.stats")
    stage.second()


def job(name: str = "j_1", state: str = "running", processed: int = 0, ended_ms: int = 0) -> Body:
    return {"id": name, "state": state, "total": 400, "processed": processed, "ended_ms": ended_ms}


def test_progress_and_end_of_a_job_are_published() -> None:
    stage = Heard()
    long_ago = job("j_0", "done", 400, ended_ms=1)
    stage.jobs = [job(), long_ago]
    listener = stage.listener("$mom.job.>")
    stage.second()
    assert [(topic, data["processed"]) for topic, _, data in events(listener)] == [("$mom.job.j_1", 0)]
    stage.second()
    assert events(listener) == [], "nothing is new"
    stage.jobs = [job(processed=200), long_ago]
    stage.second()
    assert [data["processed"] for _, _, data in events(listener)] == [200]
    stage.jobs = [job("j_1", "done", 400, ended_ms=stage.now_us // 1000), long_ago]
    stage.second()
    assert [data["state"] for _, _, data in events(listener)] == ["done"]


def test_a_job_that_ended_before_the_first_report_is_published() -> None:
    stage = Heard()
    listener = stage.listener("$mom.job.j_1")
    stage.jobs = [job("j_1", "done", 400, ended_ms=stage.now_us // 1000)]
    stage.second()
    assert [data["state"] for _, _, data in events(listener)] == ["done"]
    ((_, body),) = bodies(stage.listener("$mom.job.j_1", snapshot=True))
    assert [one["state"] for one in body["data"]["items"]] == ["done"]


def test_alerts_are_published_when_they_fire_after_the_open_ones() -> None:
    stage = Heard()
    stage.alerts = [{"id": "1", "subject": "/queue/a"}]
    listener = stage.listener("$mom.alert", snapshot=True)
    topic, body = bodies(listener)[0]
    assert (topic, body["data"]["items"]) == ("$mom.alert", stage.alerts)
    stage.system_topics.alert("fired", {"id": "2", "subject": "/queue/b"})
    stage.second()
    assert events(listener) == [("$mom.alert", "mom.alert.fired", {"id": "2", "subject": "/queue/b"})]


def test_entries_of_the_event_log_are_published() -> None:
    stage = Heard()
    listener = stage.listener("$mom.event")
    stage.system_topics.logged({"id": "7", "name": "west", "event": "stalled"})
    stage.second()
    assert events(listener) == [("$mom.event", "mom.event", {"id": "7", "name": "west", "event": "stalled"})]


def test_changed_destinations_are_published_in_rows_and_idle_ones_are_not() -> None:
    stage = Heard()
    listener = stage.listener("$mom.destinations", "$mom.node")
    for _ in range(3):
        stage.client().publish("/queue/a")
    stage.client().publish("/temp-queue/mine")
    stage.second()
    (_, node), (_, moved) = bodies(listener)
    assert node["node"]["backlog"] == 3
    assert moved["rows"] == [["/queue/a", 3, 0, 0, 3.0, 0.0, 1.0, "no-consumer", None, None]]
    assert moved["missed"] == 0
    stage.second()
    rates = [row[4] for _, body in bodies(listener) if "rows" in body for row in body["rows"]]
    assert rates == [0.0], "that it became idle is reported"
    stage.second()
    assert [topic for topic, _ in bodies(listener)] == ["$mom.node"]


def test_more_rows_than_a_message_holds_come_in_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved, "MAX_ROWS", 2)
    stage = Heard()
    listener = stage.listener("$mom.destinations")
    for name in "abcde":
        stage.client().publish(f"/queue/{name}")
    told = []
    for _ in range(4):
        stage.second()
        told += [([row[0][-1] for row in body["rows"]], body["missed"]) for _, body in bodies(listener)]
    assert [missed for _, missed in told[:2]] == [3, 3], "reported ones are reported once more when idle"
    names = [name for names, _ in told for name in names]
    assert sorted(names[:5]) == list("abcde")


def test_an_idle_queue_is_published_once_when_it_stops_growing() -> None:
    stage = Heard()
    listener = stage.listener("$mom.destinations")
    taker = stage.client()
    taker.subscribe("/queue/a", credit=1)
    for _ in range(150):
        stage.client().publish("/queue/a")
        stage.second()
    assert bodies(listener)[-1][1]["rows"][0][7] == "growing"
    for _ in range(60):
        stage.second()
    assert bodies(listener)[-1][1]["rows"][0][7] == "idle"


def test_a_snapshot_passes_over_a_queue_that_has_gone_since_the_last_pass() -> None:
    stage = Heard()
    requester = stage.client()
    requester.subscribe("/temp-queue/answers")
    stage.client().publish("/queue/stays")
    stage.second()
    assert "/temp-queue/answers" in {row["name"] for row in stage.statistics.latest()["destinations"]}
    requester.disconnect()
    listener = stage.listener("$mom.stats.>", snapshot=True)
    assert [body["name"] for _, body in bodies(listener) if "name" in body] == ["/queue/stays"]


def test_a_snapshot_for_a_durable_subscription_that_has_ended_goes_nowhere() -> None:
    stage = Heard(topic_pending=3)
    listener = stage.listener()
    durable = c.Subscribe(
        listener.peer, "1", "/topic/$mom.>", c.INDIVIDUAL, name="told", durable=True, snapshot=True
    )
    for _ in range(5):  # its queue stays, and would be full in the end
        stage.decide(durable, c.Unsubscribe(listener.peer, "1"))
    assert stage.broker.destinations.queues["/topic-subscription/told"].depth == 0
    assert listener.got == []
