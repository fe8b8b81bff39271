"""Batches of a producer when its broker is killed and a mirror takes over: each is published once."""

from __future__ import annotations

from typing import Any

from tests.support.broker_process import BrokerProcess, Reply
from tests.support.mirrors import Mirrors
from tests.support.polling import poll
from tests.support.staged_rows import MEDIA_TYPE, stage_id, to


def stage(broker: BrokerProcess, *bodies: bytes) -> dict[str, Any]:
    one = {"id": stage_id(), "parts": 1, "rows": len(bodies)}
    path = f"/api/v1/bulk/stage?id={one['id']}"
    reply = broker.request("POST", path, to("/queue/a", *bodies), content_type=MEDIA_TYPE)
    assert reply.status == 200, reply.body
    return one


def commit(broker: BrokerProcess, batch: int, *stages: dict[str, Any]) -> Reply:
    body = {"producer": "query", "batch": batch, "stages": list(stages)}
    return broker.request("POST", "/api/v1/bulk/commit", json_body=body)


def serves(broker: BrokerProcess) -> bool:
    try:
        return broker.request("GET", "/api/v1/health/ready", authorization="").status == 200
    except OSError:  # it is just taking over
        return False


def test_a_mirror_knows_the_batches_and_wants_the_rows_of_others_staged_again(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    committed, lost = stage(main, b"1", b"2"), stage(main, b"3")
    assert commit(main, 0, committed).json()["published"] == 2
    main.kill()
    poll(lambda: serves(mirror))
    assert commit(mirror, 0, committed).json() == {"published": 0, "duplicate": True}
    assert commit(mirror, 1, lost).status == 404
    assert commit(mirror, 1, stage(mirror, b"3")).json() == {"published": 1, "duplicate": False}
    assert mirror.request("GET", "/api/v1/queues/a").json()["depth"] == 3
