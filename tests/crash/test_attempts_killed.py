"""Attempts and SIGKILL: a message that is held whenever the broker is killed does not go on for ever."""

from __future__ import annotations

import pytest

from tests.support.broker_process import StartBroker

pytestmark = pytest.mark.process


def test_a_message_held_at_each_kill_becomes_a_dead_letter(start_broker: StartBroker) -> None:
    broker = start_broker()
    assert broker.request("PUT", "/api/v1/queues/q", json_body={"max_attempts": 3}).status == 201
    assert broker.request("POST", "/api/v1/queues/q/messages", json_body={"body": "poison"}).status == 201
    for attempt in (1, 2, 3):
        wish = {"max": 1, "wait_s": 20, "lease_s": 3_600}
        (item,) = broker.request("POST", "/api/v1/queues/q/receive", json_body=wish).json()["items"]
        assert (item["body"], item["attempt"]) == ({"body": "poison"}, attempt)
        broker.kill()
        broker.start()
    wish = {"max": 1, "wait_s": 0}
    assert broker.request("POST", "/api/v1/queues/q/receive", json_body=wish).json()["items"] == []
    (dead,) = broker.request("GET", "/api/v1/queues/q.dead/messages").json()["items"]
    assert (dead["headers"]["dead-reason"], dead["headers"]["dead-attempts"]) == ("MAX_ATTEMPTS", "3")
