"""The fixture `bridged`: a bridge with two flows, and users with different rights to it."""

from __future__ import annotations

from typing import Any

from broker_app.rules.rule import Rule

ORDERS, BILLS = "storeAndForward:west/queue/orders", "storeAndForward:west/queue/bills"
#: bob may look at what waits for orders, and manage bills; to send, anybody
BOBS = (
    Rule("looks", "allow", f"(/event/queue == {ORDERS}) && (/event/method == BROWSE)", ("bob",), (), ""),
    Rule("manages", "allow", f"/event/queue == {BILLS}", ("bob",), (), ""),
    Rule("sends", "allow", "/event/method == POST", (), (), ""),
)


def flow(queue: str, **facts: Any) -> dict[str, Any]:
    return {
        "queue": queue, "source": f"/queue/storeAndForward:west/queue/{queue}", "state": "running",
        "paused": False, "error": None, "progress_ms": 1_750_000_000_500, "depth": 3, "in_flight": 1,
        "sent": 10, "accepted": 8, "refused": 1, "unanswered": 0, "duplicate": 0, "gap": 0,
        "dead_lettered": 0, "bytes": 80, **facts,
    }  # fmt: skip


def report(name: str = "west", **facts: Any) -> dict[str, Any]:
    return {
        "name": name, "address": "stomp://w:61613", "desired": "running", "drained": False,
        "state": "retrying", "attempts": 2, "connected_ms": None, "foreign": None, "server": "",
        "error": {"code": "REFUSED", "detail": "no listener", "at_ms": 1_750_000_000_000},
        "flows": [flow("bills"), flow("orders", depth=2)], **facts,
    }  # fmt: skip
