"""Files of the data directory: for the broker's user alone, whatever the directory's own mode is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, BrokerProcess, StartBroker


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """As a service manager or a shell starts a broker."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(data: Path) -> list[str]:
    """The files that other users could read or list."""
    return sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.lstat().st_mode & 0o077)


def work(broker: BrokerProcess) -> None:
    """Have the broker write files of all kinds."""
    broker.request("POST", "/api/v1/queues/a/messages", b"secret")
    wish = {"op": "export", "source": "a"}
    job = broker.request("POST", "/api/v1/jobs", json_body=wish).json()
    deadline = time.monotonic() + 60
    while broker.request("GET", f"/api/v1/jobs/{job['id']}").json()["state"] != "done":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nothing_that_a_broker_writes_is_open_to_other_users(
    tmp_path: Path, start_broker: StartBroker
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    broker = start_broker(data=data)
    work(broker)
    assert open_to_others(data) == []
    broker.terminate()
    assert open_to_others(data) == []


def test_files_of_former_versions_are_closed_at_the_start_and_foreign_ones_left(
    tmp_path: Path, start_broker: StartBroker
) -> None:
    data = tmp_path / "data"
    broker = start_broker(data=data)
    work(broker)
    broker.terminate()
    for path in data.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    foreign = data / "notes.txt"
    foreign.write_text("of the operator")
    target = tmp_path / "elsewhere"
    target.write_text("linked")
    (data / "jobs" / "link").symlink_to(target)
    broker.start()
    assert [name for name in open_to_others(data) if name not in ("jobs/link", "notes.txt")] == []
    assert foreign.stat().st_mode & 0o777 == target.stat().st_mode & 0o777 == 0o644
    assert "could be read by other users" in broker.log


def test_files_of_mom_are_private_to_its_user(tmp_path: Path, start_broker: StartBroker) -> None:
    broker = start_broker(data=tmp_path / "data")
    broker.terminate()
    for name in ("config.sqlite3-wal", "config.sqlite3-shm"):
        (broker.data / name).unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "broker_app.cli", "token", "create", "first"],
        cwd=ROOT, env=broker.environment, check=True, capture_output=True,
    )  # fmt: skip
    assert open_to_others(broker.data) == []
