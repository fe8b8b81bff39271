"""`manage.py broker` as a process: its output, who it lets in, how it stops."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from broker_app.net.stomp.session import VERSION
from tests.support.forked import Forked
from tests.support.patience import patient

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
MANAGE = [sys.executable, str(ROOT / "manage.py")]


class Broker:
    """A running broker and its output when it was ready."""

    def __init__(self, process: asyncio.subprocess.Process, said: str) -> None:
        self.process = process
        self.said = said

    def found(self, pattern: str) -> str:
        match = re.search(pattern, self.said)
        assert match is not None, self.said
        return match[1]

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), patient(10))


@asynccontextmanager
async def broker(data: Path, *options: str) -> AsyncIterator[Broker]:
    """A broker on free ports, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *MANAGE,
        "broker",
        f"--data={data}",
        "--port=0",
        "--stomp-port=0",
        *options,
        stdout=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("MOM_")},
    )
    assert process.stdout is not None
    try:
        said = await asyncio.wait_for(
            process.stdout.readuntil(b"/api/v1/queues/hello/messages\n"), patient(60)
        )
        yield Broker(process, said.decode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_printed_addresses_work_and_a_change_by_another_process_takes_effect(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as running:
        url = running.found(r"(http://127\.0\.0\.1:\d+)/console")
        password = (tmp_path / "first_password").read_text().strip()
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            sent = await client.post(
                "/api/v1/queues/hello/messages", content=b"hello", auth=("admin", password)
            )
            assert sent.status_code == 201

            entered = await client.get((tmp_path / "login_link").read_text().strip())
            assert entered.headers["location"] == "/console/welcome/"
            browsed = await client.get("/api/v1/queues/hello/messages")
            assert browsed.json()["items"][0]["body"] == "hello"

            with closing(sqlite3.connect(tmp_path / "config.sqlite3", timeout=10)) as database, database:
                database.execute("UPDATE auth_user SET is_active = 0")
                database.execute("UPDATE broker_app_policyversion SET number = number + 1")
            async with asyncio.timeout(patient(20)):
                while (await client.get("/api/v1/queues/hello/messages")).status_code == 200:
                    await asyncio.sleep(0.1)

        assert await running.stop() == 0


async def test_a_password_from_a_file_is_admins_and_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from the file\n")
    options = f"--admin-password-file={secret}", "--log-format=json"
    async with broker(tmp_path / "data", *options) as running:
        assert "from the file" not in running.said
        url = running.found(r"(http://127\.0\.0\.1:\d+)/console")
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            for password, status in (("from the file", 200), ("another", 401)):
                assert (await client.get("/api/v1/stats", auth=("admin", password))).status_code == status
            client.auth = httpx.BasicAuth("admin", "from the file")
            made = await client.put(
                "/api/v1/users/anna", json={"password": "a secret of anna"}, headers={"If-None-Match": "*"}
            )
            assert made.status_code == 201, made.text
            assert (await client.get("/nothing")).status_code == 404
        assert await running.stop() == 0
        assert running.process.stdout is not None
        written = (await running.process.stdout.read()).decode()
    lines = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    messages = [line["message"] for line in lines]
    ports = f"ports {url.rpartition(':')[2]} (web), {running.found(r'STOMP +127.0.0.1:([0-9]+)')} (STOMP)"
    started = f"MOM {VERSION}: broker mom serves at 127.0.0.1, {ports}; data in {tmp_path / 'data'}"
    stopped = [
        "broker mom stops: it has received SIGTERM; another one ends it at once",
        "broker mom has stopped",
    ]
    assert (messages[0], messages[-2:]) == (started, stopped), written
    created = next(line for line in lines if line["logger"] == "broker_app.web.actions.audit")
    assert created["message"] == "admin (api) created users anna"
    assert (created["author"], created["action"], created["kind"], created["key"]) == (
        "admin", "created", "users", "anna",
    )  # fmt: skip
    assert "secret of anna" not in written
    assert "/nothing" not in written


async def test_a_second_broker_on_the_same_data_is_refused_before_it_changes_anything(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("of the first\n")
    second.write_text("of the second\n")
    async with broker(tmp_path / "data", f"--admin-password-file={first}") as running:
        process = await asyncio.create_subprocess_exec(
            *MANAGE,
            "broker",
            f"--data={tmp_path / 'data'}",
            f"--admin-password-file={second}",
            stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if not name.startswith("MOM_")},
        )
        _, said = await asyncio.wait_for(process.communicate(), patient(30))
        assert process.returncode != 0
        assert f"the journal is in use by process {running.process.pid}" in said.decode()
        url = running.found(r"(http://127\.0\.0\.1:\d+)/console")
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            reply = await client.get("/api/v1/config/versions", auth=("admin", "of the first"))
        assert [version["version"] for version in reply.json()["items"]] == [1]


@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        (["--log-level=warn"], {}, "did you mean warning?"),
        ([], {"MOM_PROT": "1"}, "did you mean MOM_PORT?"),
        (["--port=x"], {}, "MOM_PORT: 'x' is not a number"),
        (["--prot=1"], {}, "unrecognized arguments: --prot=1"),
    ],
)
def test_wrong_settings_are_reported_in_a_sentence(
    tmp_path: Path, arguments: list[str], variables: dict[str, str], sentence: str
) -> None:
    command = [sys.executable, "manage.py", "broker", *arguments]
    environment = {**os.environ, "MOM_DATA": str(tmp_path), **variables}
    with Forked(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate(timeout=patient(30))
    assert process.returncode == 2
    assert sentence in said
    assert "Traceback" not in said
