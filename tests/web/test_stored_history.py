"""Minutes that the pipeline has stored come back as the history of a queue, from each database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.postgres import postgres_server

HOUR = timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgres"])
def broker(
    request: pytest.FixtureRequest, start_broker: StartBroker, tmp_path: Path
) -> Iterator[BrokerProcess]:
    if request.param == "sqlite":
        yield start_broker()
        return
    with postgres_server() as postgres:
        environment = {
            "MOM_DATABASE": f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres",
            "MOM_SECRET_KEY_FILE": str(tmp_path / "secret-key"),
        }
        broker = start_broker(environment=environment)
        yield broker
        broker.kill()


def test_days_of_minutes_are_added_up(broker: BrokerProcess) -> None:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    begin = now - timedelta(days=40)
    rows: list[dict[str, Any]] = [
        {
            "broker": "mom", "destination": "/queue/orders", "enqueued": 2, "redelivered": 1,
            "minute": (begin + number * HOUR).isoformat(), "queue_time_us_p95": 1000 * number,
        }
        for number in range(40 * 24)
    ]  # fmt: skip
    computed = {"broker": "mom", "begin": begin.isoformat(), "end": now.isoformat()}
    body = {"rows": rows, "computed": computed}
    stored = broker.request("POST", "/api/v1/pipeline/statistics", json_body=body)
    assert stored.status == 204, stored.body
    window = f"window_s={30 * 24 * 3600}&step_s={24 * 3600}"
    found = broker.request("GET", f"/api/v1/queues/orders/history?{window}").json()
    assert (found["step_s"], len(found["series"]["in"])) == (24 * 3600, 30)
    # The last step is today, which has just begun or is nearly over.
    assert found["series"]["in"][:-1] == [48] * 29
    assert found["series"]["redelivered"][3] == 24
    p95 = found["series"]["queue_p95_s"]
    steps = [round(later - earlier, 3) for earlier, later in pairwise(p95[:-1])]
    assert steps == [0.024] * 28
    assert found["series"]["computed"][:-1] == [1] * 29
    assert found["stored_from"] == begin.isoformat(timespec="milliseconds").replace("+00:00", "Z")
