"""Metrics of a broker as Prometheus scrapes them, with what jobs of the pipeline have reported."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

START = {"job": "archive", "run_id": "r1", "host": "spark-1", "parameters": {}}


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker()


def scraped(broker: BrokerProcess, authorization: str | None = None) -> dict[tuple[str, str], float]:
    """By name and job (or "") the samples of a scrape."""
    headers: dict[str, Any] = {} if authorization is None else {"authorization": authorization}
    reply = broker.request("GET", "/metrics", **headers)
    assert reply.status == 200, reply.body
    families = text_string_to_metric_families(reply.body.decode())
    return {
        (sample.name, sample.labels.get("job", "")): sample.value
        for family in families
        for sample in family.samples
    }


def report(broker: BrokerProcess, run_id: str, **facts: Any) -> None:
    body = {"run_id": run_id, **facts}
    assert broker.request("POST", "/api/v1/pipeline/runs/archive/report", json_body=body).status == 200


def begin(broker: BrokerProcess, run_id: str) -> None:
    start = {**START, "run_id": run_id}
    assert broker.request("PUT", "/api/v1/pipeline/runs/archive", json_body=start).status == 200


def batch(number: int, ms: int) -> dict[str, Any]:
    return {"number": number, "at": "2026-11-25T12:00:00Z", "rows": 100, "ms": ms}


def test_a_job_is_counted_over_all_of_its_runs_and_over_restarts(broker: BrokerProcess) -> None:
    assert not any(name.startswith("mom_pipeline") for name, _ in scraped(broker))
    begin(broker, "r1")
    report(broker, "r1", state="running", rows=100, batch=batch(0, 90))
    report(broker, "r1", rows=250, batch=batch(1, 700))
    report(broker, "r1", state="done")
    begin(broker, "r2")
    report(broker, "r2", state="failed", error="no space", rows=40, batch=batch(0, 90))
    broker.kill()
    broker.start()
    found = scraped(broker)
    assert found["mom_pipeline_rows_total", "archive"] == 290
    assert found["mom_pipeline_batch_seconds_count", "archive"] == 3
    assert found["mom_pipeline_batch_seconds_sum", "archive"] == pytest.approx(0.88)
    assert found["mom_pipeline_last_success_timestamp_seconds", "archive"] > 1.7e9
    assert found["mom_build_info", ""] == 1
    failing = 'mom_component_health{health="failing",kind="pipeline",name="archive"} 1.0'
    poll(lambda: failing in broker.request("GET", "/metrics").body.decode())


def test_the_last_success_is_that_of_the_last_batch_or_of_an_idle_job(broker: BrokerProcess) -> None:
    begin(broker, "r1")
    report(broker, "r1", state="running")
    success = "mom_pipeline_last_success_timestamp_seconds", "archive"
    assert success not in scraped(broker)
    report(broker, "r1", state="idle")
    idle = scraped(broker)[success]
    report(broker, "r1", state="failed", error="no")
    assert scraped(broker)[success] == idle


def test_a_token_for_metrics_reads_nothing_else(broker: BrokerProcess) -> None:
    grants = [{"rights": ["metrics:read"], "destinations": [">"]}]
    made = broker.request("POST", "/api/v1/tokens", json_body={"name": "prometheus", "grants": grants})
    bearer = f"Bearer {made.json()['token']}"
    assert ("mom_build_info", "") in scraped(broker, authorization=bearer)
    for path in ("/api/v1/stats", "/api/v1/journal/span", "/api/v1/pipeline/runs"):
        reply = broker.request("GET", path, authorization=bearer)
        assert reply.status == 403 or reply.json().get("destinations") == []


def test_metrics_need_a_login(broker: BrokerProcess) -> None:
    assert broker.request("GET", "/metrics", authorization="Bearer mom_x").status == 401
