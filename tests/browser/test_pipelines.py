"""The pages of the data pipeline: how far a job has come, live, and the result of a reconciliation."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess

RUN = "/api/v1/pipeline/runs/archive"


@pytest.fixture
def page(tab: Page) -> Page:
    """Each test begins with a page of its own, and not with the first page of the console."""
    return tab


def ask(broker: BrokerProcess, method: str, path: str, **body: Any) -> Any:
    reply = broker.request(method, path, json_body=body)
    assert reply.status < 300, reply.body
    return reply.json()


def report(broker: BrokerProcess, **facts: Any) -> Any:
    return ask(broker, "POST", f"{RUN}/report", run_id="r1", **facts)


def batch(number: int, rows: int) -> dict[str, Any]:
    return {"number": number, "at": "2026-11-25T12:00:00Z", "rows": rows, "ms": 250}


def end_of(broker: BrokerProcess) -> int:
    end: int = broker.request("GET", "/api/v1/journal/span").json()["end"]
    return end


def test_progress_is_live_and_the_lag_is_that_of_the_journal(page: Page, broker: BrokerProcess) -> None:
    ask(broker, "PUT", RUN, job="archive", run_id="r1", host="spark-1")
    report(broker, state="running", rows=100, lag=5, batch=batch(0, 100))
    page.goto("/console/pipelines/")
    row = page.get_by_role("row", name="archive")
    expect(row).to_contain_text("running")
    behind = row.locator("[data-label='positions behind']")
    expect(behind).to_have_text("5")
    report(broker, state="idle", rows=350, batch=batch(1, 250))
    expect(row).to_contain_text("waiting for messages")
    expect(row.locator("[data-label=rows]")).to_have_text("350")
    expect(row.get_by_role("img", name="the last batch: 250 rows in 250 ms")).to_be_visible()
    ask(broker, "PUT", "/api/v1/pipeline/cursors/archive", position=end_of(broker))
    expect(behind).to_have_text("0")
    for number in range(3):
        sent = broker.request("POST", "/api/v1/queues/read/messages", b"x", content_type="text/plain")
        assert sent.status == 201, number
    expect(behind).to_have_text("3")
    expect(
        row.get_by_role("img", name=re.compile("positions behind in .*: 3 now, at most 3"))
    ).to_be_visible()


def test_a_run_is_stopped_started_again_and_removed(
    page: Page, broker: BrokerProcess, complaints: list[str]
) -> None:
    command = "mom pipeline run archive --out /srv/archive"
    ask(broker, "PUT", RUN, job="archive", run_id="r1", host="spark-1", command=command)
    report(broker, state="running", rows=100, batch=batch(0, 100))
    page.goto("/console/pipelines/")
    page.get_by_role("row", name="archive").get_by_role("link", name="archive").click()
    expect(page.get_by_role("row", name="0 Nov 25, 2026, 12:00:00 UTC 100 250 400")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".toast")).to_contain_text("archive stops after its present batch.")
    assert report(broker)["stop_requested"]
    report(broker, state="stopped")
    expect(page.get_by_label("Start", exact=True)).to_have_text(command)
    expect(page.get_by_role("button", name="Copy")).to_be_visible()
    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".toast")).to_contain_text("archive was removed from the list.")
    expect(page.get_by_role("heading", level=1, name="Pipelines")).to_be_visible()
    assert broker.request("GET", RUN).status == 404
    page.close()
    # Before the list was shown, the page of the run may have asked once more.
    assert all("404" in complaint for complaint in complaints)
    complaints.clear()


def test_the_report_of_a_reconciliation_is_downloaded(page: Page, broker: BrokerProcess) -> None:
    run = "/api/v1/pipeline/runs/west"
    ask(broker, "PUT", run, job="reconcile", run_id="r1", host="spark-1")
    rows = [{"state": "lost", "message_id": f"m-{number}"} for number in range(2)]
    ask(broker, "PUT", f"{run}/reconciliation", run_id="r1", states={"ok": 8, "lost": 2}, rows=rows)
    page.goto("/console/pipelines/")
    page.get_by_role("link", name="8 arrived once, 2 lost").click()
    expect(page.get_by_role("row", name="m-1")).to_contain_text("lost")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download 2 messages that are not ok").click()
    lines = download.value.path().read_text().splitlines()
    assert [json.loads(line)["message_id"] for line in lines] == ["m-0", "m-1"]
