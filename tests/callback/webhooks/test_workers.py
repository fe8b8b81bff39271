"""Workers send the requests of webhooks: a real broker, real workers and a real Valkey, which are killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.forked import Forked
from tests.support.hook_server import HookServer, hook_server
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.redis import Redis, redis_server

pytestmark = pytest.mark.process

HURRIED = Path(__file__).with_name("hurried_broker.py")


class Crew:
    """A broker whose requests workers send."""

    def __init__(self, folder: Path, layer: Redis, receiver: HookServer) -> None:
        self.receiver = receiver
        self.layer = layer
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []
        environment = {"MOM_WEBHOOK_ALLOW": "127.0.0.1", "MOM_CHANNEL_LAYER": layer.url}
        self.broker = BrokerProcess(folder / "data", environment=environment)
        self.broker.command = (sys.executable, str(HURRIED.relative_to(ROOT)), "broker")
        self.broker.start()
        said = {"url": receiver.url, "queue": "a", "retry_s": 0.1, "max_retry_s": 0.5, "timeout_s": 2}
        self.ask("PUT", "callbacks/hook", {**said, "authorization": "Bearer of-the-receiver"})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        reply = self.broker.request(method, f"/api/v1/{path}", json_body=body)
        assert reply.status < 300, reply.body
        return reply.json() if reply.body else None

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", "callbacks/hook/status")
        return found

    def publish(self, first: int, count: int) -> None:
        items = [{"body": number} for number in range(first, first + count)]
        self.ask("POST", "queues/a/messages/batch", items)

    def start_worker(self) -> subprocess.Popen[bytes]:
        with (self._folder / "worker.log").open("ab") as log:
            worker = Forked(
                [sys.executable, "-m", "broker_app.cli", "callback", "worker"],
                cwd=self._folder,
                env={**self.broker.environment, "MOM_DATA": str(self._folder / "worker-has-no-data")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._workers.append(worker)
        return worker

    @property
    def log(self) -> str:
        return (self._folder / "worker.log").read_text(errors="replace")

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self.broker.kill()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    with (
        redis_server() as layer,
        hook_server() as receiver,
        contextlib.closing(Crew(tmp_path, layer, receiver)) as made,
    ):
        yield made


def arrived(crew: Crew, numbers: int) -> Callable[[], bool]:
    return lambda: {int(body) for body in crew.receiver.bodies} >= set(range(numbers))


def test_without_a_worker_nothing_is_attempted_and_with_one_everything_arrives(
    crew: Crew, tmp_path: Path
) -> None:
    crew.publish(0, 5)
    poll(lambda: crew.status()["state"] == "unverified", 60)
    assert "no worker took the request within" in crew.status()["reason"]
    crew.start_worker()
    crew.ask("POST", "callbacks/hook/push")
    poll(arrived(crew, 5), 60)
    poll(lambda: crew.status()["pending"] == 0, 30)
    assert {hook.headers["mom-attempt"] for hook in crew.receiver.hooks} == {"1"}
    assert crew.receiver.hooks[0].headers["authorization"] == "Bearer of-the-receiver"
    assert not (tmp_path / "worker-has-no-data").exists(), "it needs neither a database nor a secret key"


@pytest.mark.slow
def test_killed_workers_and_a_killed_layer_lose_nothing(crew: Crew) -> None:
    first, second = crew.start_worker(), crew.start_worker()
    poll(lambda: crew.status()["state"] == "running", 60)
    crew.publish(0, 100)
    poll(lambda: len(crew.receiver.bodies) > 10, 60)
    first.kill()
    crew.publish(100, 100)
    poll(lambda: len(crew.receiver.bodies) > 110, 60)
    second.kill()
    crew.publish(200, 20)
    crew.start_worker()
    poll(arrived(crew, 220), 60)
    crew.layer.kill()
    crew.publish(220, 20)
    poll(lambda: crew.status()["pushes"]["unsent"] > 0, 60)
    crew.layer.start()
    poll(arrived(crew, 240), 60)
    poll(lambda: crew.status()["pending"] == 0, 60)
    ids: dict[bytes, set[str]] = {}
    for hook in crew.receiver.hooks:
        ids.setdefault(hook.body, set()).add(hook.headers["webhook-id"])
    assert {len(known) for known in ids.values()} == {1}, "a repeat has the id of the first push"
    assert "no tasks can be received" in crew.log, "the worker has survived the restart of the layer"


def test_a_worker_ends_with_ctrl_c(crew: Crew) -> None:
    worker = crew.start_worker()
    poll(lambda: crew.status()["state"] == "running", 60)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(patient(20)) == 0
    assert "Traceback" not in crew.log


def test_a_channel_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CommandError, match=r"there is no channel mom\.webhoks, only mom\.webhooks"):
        call_command("runworker", "mom.webhoks")
