"""The surroundings of runs in tests: an API that keeps the requests it gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mom_pipeline.progress import ApiRefused, ApiUnreachable, Progress
from mom_pipeline.runner import Surroundings
from tests.support.broker_process import BrokerProcess


class RecordingApi:
    """An API that keeps requests, and gives the configured answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.stop_requested = False
        self.reachable = True
        #: the problem of a request by method and path
        self.problems: dict[tuple[str, str], Exception] = {}
        self.journal = "none"
        #: what happens before a request by method and path is answered
        self.before: dict[tuple[str, str], Callable[[], None]] = {}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.requests.append((method, path, body))
        self.before.get((method, path), lambda: None)()
        if not self.reachable:
            raise ApiUnreachable("cannot reach the broker: refused")
        if (method, path) in self.problems:
            raise self.problems[method, path]
        if path == "/journal/span":
            return {"broker": "A", "journal": self.journal}
        if path.startswith("/pipeline/cursors/"):
            return {"lag_s": 1.5}
        return {"stop_requested": self.stop_requested}

    def bodies(self, method: str, path: str) -> list[Any]:
        return [body for one, other, body in self.requests if (one, other) == (method, path)]

    @property
    def states(self) -> list[str]:
        """The states that a run has reported."""
        return [body["state"] for _, path, body in self.requests if path.endswith("/report")]


class BrokerApi:
    """The API of a real broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker

    def call(self, method: str, path: str, body: Any = None) -> Any:
        reply = self._broker.request(method, f"/api/v1{path}", json_body=body)
        if reply.status >= 400:
            missing = reply.status == 404
            raise ApiRefused(reply.json()["detail"], conflict=reply.status == 409, missing=missing)
        return reply.json() if reply.body else None


def surroundings(
    tmp_path: Path,
    api: Any,
    said: list[str] | None = None,
    show: Callable[[Progress], None] = lambda _: None,
) -> Surroundings:
    """Surroundings with Spark on one core, whose sentences are added to `said`."""
    heard = said if said is not None else []
    return Surroundings(state=tmp_path / "state", api=api, say=heard.append, show=show, master="local[1]")
