"""Runs of the data pipeline and their statistics, over REST and in the console."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from broker_app.core.destination import MAX_ADDRESS, MAX_NAME, dead_letters_of, parse
from broker_app.pipeline import runs, statistics
from broker_app.pipeline.history import of_destination
from broker_app.pipeline.models import ComputedTime, PipelineRun
from broker_app.pipeline.store import DatabaseStore
from broker_app.telemetry.pipeline_store import StoredHistory
from broker_app.templatetags.console_assets import icon
from broker_app.web.console.forwarding.pipeline_status import chart, in_words

pytestmark = pytest.mark.django_db(databases=["default", "pipeline"])

RUNS = "/api/v1/pipeline/runs"
STATISTICS = "/api/v1/pipeline/statistics"
START = {"job": "archive", "run_id": "r1", "host": "spark-1", "parameters": {"destinations": "orders.>"}}


def put(inside: Client, name: str = "archive:B1", **other: Any) -> Any:
    return inside.put(f"{RUNS}/{name}", {**START, **other}, content_type="application/json")


def report(inside: Client, name: str = "archive:B1", **facts: Any) -> Any:
    body = {"run_id": "r1", **facts}
    return inside.post(f"{RUNS}/{name}/report", body, content_type="application/json")


def batch(number: int, rows: int = 100) -> dict[str, Any]:
    return {"number": number, "at": "2026-11-25T12:00:00Z", "rows": rows, "ms": 250}


def test_a_run_reports_its_progress_until_it_is_asked_to_stop(inside: Client) -> None:
    assert put(inside).json()["state"] == "starting"
    told = report(
        inside, state="running", rows=100, offsets={"B1": {"epoch": 1, "pos": 7}}, lag=3, batch=batch(0)
    ).json()
    assert (told["state"], told["rows"], told["rows_per_s"], told["lag"]) == ("running", 100, 400.0, 3)
    assert not told["stop_requested"]
    assert inside.post(f"{RUNS}/archive:B1/stop").json()["stop_requested"]
    assert report(inside, rows=200, batch=batch(1)).json()["stop_requested"]
    ended = report(inside, state="stopped").json()
    assert (ended["state"], ended["rows"], len(ended["batches"])) == ("stopped", 200, 2)
    (listed,) = inside.get(RUNS).json()["items"]
    assert listed == ended


def test_a_name_is_run_once_at_a_time(inside: Client) -> None:
    put(inside)
    refused = put(inside, run_id="r2")
    assert refused.status_code == 409
    assert "archive:B1 runs already, on spark-1; stop it with mom pipeline stop" in refused.json()["detail"]
    assert put(inside).status_code == 200  # the same run, after an answer that was lost
    PipelineRun.objects.update(reported=datetime.now(UTC) - timedelta(seconds=runs.LEASE_S + 1))
    assert inside.get(f"{RUNS}/archive:B1").json()["state"] == "lost"
    assert put(inside, run_id="r2").status_code == 200
    late = report(inside, state="running")
    assert (late.status_code, "this one must end" in late.json()["detail"]) == (409, True)


def test_a_minute_of_the_longest_destination_is_stored(inside: Client) -> None:
    """The dead letter queue of a durable subscription, whose name is escaped."""
    topic, name = "/topic/" + "t" * MAX_NAME, "/topic-subscription/" + "/" * MAX_NAME
    destination = dead_letters_of(name, topic)
    assert parse(destination).address == destination
    row = {"broker": "B1", "destination": destination, "minute": "2026-11-25T12:00:00Z", "enqueued": 1}
    assert inside.post(STATISTICS, {"rows": [row]}, content_type="application/json").status_code == 204
    times = {"from": "2026-11-25T12:00:00Z", "to": "2026-11-25T12:01:00Z"}
    (shown,) = inside.get(STATISTICS, {"destination": destination, **times}).json()["items"]
    assert (shown["destination"], shown["enqueued"]) == (destination, 1)
    longer = {**row, "destination": "/queue/" + "x" * MAX_ADDRESS}
    assert inside.post(STATISTICS, {"rows": [longer]}, content_type="application/json").status_code == 400


def test_the_last_batches_are_kept(inside: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_BATCHES", 5)
    put(inside)
    for number in range(runs.MOST_BATCHES + 3):
        told = report(inside, batch=batch(number)).json()
    assert [one["number"] for one in told["batches"]] == list(range(3, runs.MOST_BATCHES + 3))


def test_a_run_that_has_ended_can_be_removed(inside: Client) -> None:
    put(inside)
    assert inside.delete(f"{RUNS}/archive:B1").status_code == 409
    report(inside, state="failed", error="the journal was replaced")
    assert inside.delete(f"{RUNS}/archive:B1").status_code == 204
    assert inside.get(f"{RUNS}/archive:B1").status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/job"),
        ({**START, "job": "dance"}, "/job"),
        ({**START, "colour": "red"}, "/colour"),
        ({**START, "run_id": "x" * 65}, "/run_id"),
    ],
)
def test_a_wrong_start_names_its_field(inside: Client, body: dict[str, Any], pointer: str) -> None:
    refused = inside.put(f"{RUNS}/archive:B1", body, content_type="application/json")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == pointer


def minute(number: int, **figures: int) -> dict[str, Any]:
    at = f"2026-11-25T12:{number:02}:00Z"
    return {"broker": "B1", "destination": "/queue/orders", "minute": at, "enqueued": 5, **figures}


def test_minutes_are_stored_once_and_replaced_by_later_results(inside: Client) -> None:
    for rows in ([minute(0), minute(1)], [minute(1, enqueued=9, queue_time_us_p99=70)]):
        stored = inside.post(STATISTICS, {"rows": rows}, content_type="application/json")
        assert stored.status_code == 204, stored.content
    asked = {"destination": "/queue/orders", "from": "2026-11-25T12:00:00Z", "to": "2026-11-25T13:00:00Z"}
    found = inside.get(STATISTICS, asked).json()["items"]
    assert [(one["minute"], one["enqueued"], one["queue_time_us_p99"]) for one in found] == [
        ("2026-11-25T12:00:00Z", 5, None),
        ("2026-11-25T12:01:00Z", 9, 70),
    ]
    assert inside.get(STATISTICS, {**asked, "broker": "B2"}).json()["items"] == []


def test_a_wrong_minute_names_its_place(inside: Client) -> None:
    rows = [minute(0), minute(1, enqueued="many")]  # type: ignore[arg-type]
    refused = inside.post(STATISTICS, {"rows": rows}, content_type="application/json")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/rows/1/enqueued"


def test_only_administrators_see_the_pipeline(client: Client, john: Any) -> None:
    client.force_login(john)
    assert client.get(RUNS).status_code == 403
    for page in ("", "one?name=archive:B1", "report?name=archive:B1"):
        assert client.get(f"/console/pipelines/{page}").status_code == 403
    assert client.get(f"{RUNS}/archive:B1/reconciliation").status_code == 403


def test_the_page_shows_runs_and_stops_one(inside: Client) -> None:
    assert b"mom pipeline doctor" in inside.get("/console/pipelines/").content
    put(inside)
    for number in range(2):
        report(inside, state="running", lag=3, lag_s=1.5, batch=batch(number, 50 * number))
    page = inside.get("/console/pipelines/").content.decode()
    assert "archive:B1" in page
    assert 'points="0.0,24.0 120.0,0.0"' in page
    assert "destinations orders.&gt;" in page
    assert "the lag is what jobs reported last" in page, "it has no node"
    stopped = inside.post("/console/pipelines/", {"name": "archive:B1", "operation": "stop"}, follow=True)
    assert "archive:B1 stops after its present batch" in stopped.content.decode()
    assert PipelineRun.objects.get().stop_requested


def test_parameters_are_shown_in_words() -> None:
    journals = {"sender": {"source": "/srv/a", "destinations": []}, "bridges": ["west", "east"]}
    assert in_words({**journals, "out": None, "batch_rows": 500, "messages": False}) == [
        ("batch rows", "500"),
        ("bridges", "west, east"),
        ("messages", "no"),
        ("sender: journal", "/srv/a"),
    ]


def test_the_page_of_a_run_shows_its_batches_and_how_to_start_it_again(inside: Client) -> None:
    put(inside)
    page = "/console/pipelines/one?name=archive:B1"
    assert "No batch has ended yet." in inside.get(page).content.decode()
    for number in range(runs.MOST_BATCHES + 1):
        report(inside, state="running", rows=7, batch=batch(number, 1000 + number))
    shown = inside.get(page).content.decode()
    assert "archive on spark-1" in shown
    assert shown.count("<tr>") == runs.MOST_BATCHES + 1, "a head, and a row for each"
    assert '<td data-label="rows" class="num">1,100</td>' in shown
    assert '<td data-label="rows/s" class="num">4,400</td>' in shown
    assert "<dt>destinations</dt><dd>orders.&gt;</dd>" in shown
    assert "Start it again" not in shown
    report(inside, state="failed", offsets={"B1": {"epoch": 2, "pos": 812}}, error="[DATA_LOSS] gone")
    ended = inside.get(page).content.decode()
    assert "[DATA_LOSS] gone" in ended
    assert 'class="num">812 <span class="quiet">epoch 2</span>' in ended
    assert "mom pipeline run archive --name archive:B1 …" in ended
    put(inside, run_id="r2", command="mom pipeline run archive --out /srv/archive")
    report(inside, run_id="r2", state="stopped")
    again = inside.get(page).content.decode()
    assert "mom pipeline run archive --out /srv/archive</pre>" in again
    assert '<dt>times started</dt><dd class="num">2</dd>' in again
    assert inside.get("/console/pipelines/one?name=other").status_code == 404


@pytest.mark.parametrize(
    ("state", "badge"),
    [
        ("starting", f'data-tone="warn">{icon("triangle-alert")} degraded · starting</span>'),
        ("idle", f'data-tone="good">{icon("circle-check")} running · waiting for messages</span>'),
        ("done", f'data-tone="quiet">{icon("circle-off")} off · done</span>'),
        ("failed", f'data-tone="bad">{icon("circle-x")} failing</span>'),
    ],
)
def test_the_badge_of_a_run_is_its_health_and_green_only_if_it_works(
    inside: Client, state: str, badge: str
) -> None:
    put(inside)
    report(inside, state=state)
    for page in ("", "one?name=archive:B1"):
        assert badge in inside.get(f"/console/pipelines/{page}").content.decode()


def test_the_store_has_the_health_of_runs_and_their_errors(inside: Client) -> None:
    put(inside)
    put(inside, "other:B1", run_id="r9")
    report(inside, state="failed", error="[DATA_LOSS] gone")
    assert list(DatabaseStore().runs()) == [
        {"name": "archive:B1", "health": "failing", "error": "[DATA_LOSS] gone"},
        {"name": "other:B1", "health": "degraded", "error": ""},
    ]


def test_a_run_that_has_ended_is_removed_on_its_page(inside: Client) -> None:
    put(inside)
    remove = {"name": "archive:B1", "operation": "remove", "from": "run"}
    refused = inside.post("/console/pipelines/", remove, follow=True).content.decode()
    assert "archive:B1 runs on spark-1; stop it first" in refused
    report(inside, state="stopped")
    removed = inside.post("/console/pipelines/", remove, follow=True).content.decode()
    assert "archive:B1 was removed from the list" in removed
    assert not PipelineRun.objects.exists()


def test_a_chart_needs_two_figures() -> None:
    assert chart([5]) == ""
    assert chart([0, 0]) == "0.0,24.0 120.0,24.0"


# ---------------------------------------------------------------------- history

NOON = int(datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp())


def post(inside: Client, rows: list[dict[str, Any]], **computed: str) -> None:
    body: dict[str, Any] = {"rows": rows, **({"computed": {"broker": "B1", **computed}} if computed else {})}
    stored = inside.post(STATISTICS, body, content_type="application/json")
    assert stored.status_code == 204, stored.content


def at(hours: int, minutes: int = 0) -> str:
    return f"2026-11-25T{hours:02}:{minutes:02}:00Z"


def history(step_s: int = 300, steps: int = 4) -> StoredHistory:
    return of_destination("B1", "/queue/orders", NOON, step_s, steps)


def test_minutes_are_added_up_in_steps_and_times_are_the_largest(inside: Client) -> None:
    times = {"queue_time_us_p50": 1_000, "queue_time_us_p99": 9_000_000}
    rows = [
        minute(0, delivered=7, dequeued=6, redelivered=1, dead_lettered=2),
        minute(4, enqueued=10, **times),
        minute(3, queue_time_us_p50=500_000),
        minute(5, enqueued=1),
        {**minute(0), "broker": "B2"},
        {**minute(0), "destination": "/queue/other"},
    ]
    post(inside, rows, begin=at(12), end=at(12, 20))
    found = history()
    series = found.series
    assert (found.t0, found.step_s, series["computed"]) == (NOON, 300, [1, 1, 1, 1])
    assert series["in"] == [20, 1, 0, 0]
    assert [series[name][0] for name in ("out", "acked", "redelivered", "dead")] == [7, 6, 1, 2]
    assert series["queue_p50_s"] == [0.5, None, None, None]
    assert series["queue_p99_s"] == [9.0, None, None, None]


def test_a_time_that_was_not_computed_is_a_gap_and_a_quiet_one_is_none(inside: Client) -> None:
    post(inside, [minute(0)], begin=at(12), end=at(12, 5))
    post(inside, [], begin=at(12, 10), end=at(12, 15))
    found = history()
    assert found.series["in"] == [5, None, 0, None]
    assert found.series["computed"] == [1, 0, 1, 0]
    assert (found.first_s, found.end_s) == (NOON, NOON + 900)


def test_a_step_that_is_known_in_part_shows_which_part(inside: Client) -> None:
    post(inside, [minute(13, enqueued=20)], begin=at(12, 12), end=at(12, 15))
    found = history(900, 2)
    assert (found.series["in"], found.series["computed"]) == ([20, None], [0.2, 0])


def test_minutes_of_runs_that_note_no_time_are_shown(inside: Client) -> None:
    post(inside, [minute(0), minute(2)])
    found = history(300, 2)
    assert (found.series["in"], found.series["computed"]) == ([10, None], [1, 0])


def test_minutes_that_are_not_over_do_not_stand_for_their_whole_step(inside: Client) -> None:
    post(inside, [minute(number, enqueued=4) for number in range(6)], begin=at(12), end=at(12, 5))
    found = history(600, 1)
    assert (found.series["in"], found.series["computed"]) == ([24], [0.6])
    post(inside, [minute(10, enqueued=4)])
    found = history(600, 2)
    assert (found.series["in"], found.series["computed"]) == ([24, 4], [0.6, 0.1])


def test_times_that_touch_are_one_and_old_ones_are_deleted(inside: Client) -> None:
    for begin, end in ((0, 2), (4, 6), (2, 4), (1, 3), (8, 9)):
        post(inside, [], begin=at(begin), end=at(end))
    known = [(one.begin.hour, one.end.hour) for one in ComputedTime.objects.order_by("begin")]
    assert known == [(0, 6), (8, 9)]
    long_ago = datetime.now(UTC) - statistics.KEPT - timedelta(days=1)
    ComputedTime.objects.create(broker="B2", begin=long_ago - timedelta(days=1), end=long_ago)
    ComputedTime.objects.create(broker="B3", begin=long_ago, end=datetime.now(UTC))
    post(inside, [])
    assert not ComputedTime.objects.filter(broker="B2").exists()
    assert ComputedTime.objects.get(broker="B3").begin > long_ago


@pytest.mark.parametrize(
    ("begin", "end", "pointer"),
    [
        (at(12), at(12), "/computed/end"),
        ("2026-11-25T12:00:30Z", at(13), "/computed/begin"),
        ("soon", at(13), "/computed/begin"),
    ],
)
def test_a_wrong_time_names_its_place(inside: Client, begin: str, end: str, pointer: str) -> None:
    body = {"rows": [], "computed": {"broker": "B1", "begin": begin, "end": end}}
    refused = inside.post(STATISTICS, body, content_type="application/json")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == pointer


def test_a_broker_without_a_pipeline_has_no_stored_history(inside: Client) -> None:
    found = history()
    assert found.series["in"] == [None] * 4
    assert (found.series["computed"], found.first_s, found.end_s) == ([0] * 4, None, None)


def test_a_database_that_cannot_be_read_gives_an_empty_history_and_no_figures(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise OperationalError("disk I/O error")

    monkeypatch.setattr("broker_app.pipeline.history.of_destination", broken)
    monkeypatch.setattr("broker_app.pipeline.runs.figures", broken)
    store = DatabaseStore()
    assert store.figures() == ()
    assert store.history("B1", "/queue/orders", NOON, 60, 2).series["in"] == [None, None]
    assert "disk I/O error" in caplog.text
