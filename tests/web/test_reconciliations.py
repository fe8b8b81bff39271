"""Results of reconciliation, over REST and in the console."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from broker_app.core.destination import MAX_ADDRESS
from broker_app.pipeline import reconciliations

pytestmark = pytest.mark.django_db(databases=["default", "pipeline"])

RUN = "/api/v1/pipeline/runs/west"
RESULT = f"{RUN}/reconciliation"
LOST = {
    "state": "lost",
    "origin_broker": "home",
    "origin_position": 41,
    "message_id": "m-41",
    "destination": "/queue/storeAndForward:west/queue/orders",
    "enqueued_ts": "2026-11-25T12:00:00+00:00",
    "ended_ts": "2026-11-25T12:00:01+00:00",
    "ended_as": "FORWARD_ACK",
    "reason": None,
    "receiver": "west",
    "arrivals": 0,
    "first_position": None,
    "last_position": None,
    "received_ts": None,
}


def put(inside: Client, path: str, **body: Any) -> Any:
    return inside.put(path, body, content_type="application/json")


@pytest.fixture
def compared(inside: Client) -> Client:
    """A client; the run `west` has begun."""
    assert put(inside, RUN, job="reconcile", run_id="r1", host="spark-1").status_code == 200
    return inside


def result(**other: Any) -> dict[str, Any]:
    states = {"ok": 1998, "lost": 1, "in-flight": 1}
    rows = [LOST, {"state": "in-flight", "message_id": "m-<42>"}]
    return {"run_id": "r1", "states": states, "file": "/srv/differences.ndjson", "rows": rows, **other}


def test_a_result_is_stored_shown_and_replaced(compared: Client) -> None:
    assert compared.get(RESULT).status_code == 404
    stored = put(compared, RESULT, **result())
    assert stored.status_code == 200, stored.content
    shown = compared.get(RESULT).json()
    assert shown == stored.json()
    assert shown["states"] == {"ok": 1998, "lost": 1, "in-flight": 1}
    assert shown["rows"] == [LOST, {"state": "in-flight", "message_id": "m-<42>"}]
    put(compared, RESULT, **result(states={"ok": 2000}, rows=[]))
    assert compared.get(RESULT).json()["rows"] == []


def test_a_message_of_the_longest_destination_is_stored(compared: Client) -> None:
    longest = "/queue/".ljust(MAX_ADDRESS, "x")
    row = {**LOST, "destination": longest}
    assert put(compared, RESULT, **result(rows=[row])).json()["rows"] == [row]
    longer = {**row, "destination": longest + "x"}
    assert put(compared, RESULT, **result(rows=[longer])).status_code == 400


def test_only_the_run_that_has_the_name_stores_a_result(compared: Client) -> None:
    refused = put(compared, RESULT, **result(run_id="r0"))
    assert (refused.status_code, "this one must end" in refused.json()["detail"]) == (409, True)
    assert put(compared, RESULT.replace("west", "east"), **result()).status_code == 404


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"states": {"gone": 1}}, "/states/gone"),
        ({"states": {"lost": -1}}, "/states/lost"),
        ({"rows": [LOST, {"state": "ok"}]}, "/rows/1/state"),
        ({"rows": [{**LOST, "arrivals": "many"}]}, "/rows/0/arrivals"),
        ({"rows": [LOST] * (reconciliations.MOST_ROWS + 1)}, "/rows"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_a_wrong_result_names_its_place(compared: Client, wrong: dict[str, Any], pointer: str) -> None:
    refused = put(compared, RESULT, **result(**wrong))
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == pointer


def test_the_list_names_differences_and_leads_to_the_report(compared: Client) -> None:
    put(compared, RESULT, **result())
    listed = compared.get("/console/pipelines/").content.decode()
    assert "1,998 arrived once, 1 in flight, <b>1 lost</b>" in listed
    page = compared.get("/console/pipelines/one?name=west").content.decode()
    assert "m-41" in page and "storeAndForward:west/queue/orders" in page
    assert "m-&lt;42&gt;" in page
    assert "all of them are on spark-1 in <code>/srv/differences.ndjson</code>" in page
    report = compared.get("/console/pipelines/report?name=west")
    assert report["Content-Disposition"] == 'attachment; filename="differences.ndjson"'
    lines = report.content.decode().splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["lost", "in-flight"]


def test_a_result_goes_with_its_run(compared: Client) -> None:
    put(compared, RESULT, **result())
    compared.post(f"{RUN}/report", {"run_id": "r1", "state": "done"}, content_type="application/json")
    assert compared.delete(RUN).status_code == 204
    assert compared.get("/console/pipelines/report?name=west").status_code == 404
