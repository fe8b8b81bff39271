"""Messages pass without a single look into the database."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

import mom_client
from broker_app.config import MIB, Config
from broker_app.net.server.listeners import listen
from broker_app.net.server.serve import serve
from broker_app.node.node import Node
from broker_app.web import actions, snapshot
from tests.support.chance import rounds

#: a hundred in each round
MESSAGES = 100 * len(rounds(20, 100))


class Queries:
    """Every use of the database by any thread, since `counting` began."""

    def __init__(self) -> None:
        self.counting = False
        self.seen: list[str] = []

    def note(self, what: object) -> None:
        if self.counting:
            self.seen.append(f"{threading.current_thread().name}: {what}")


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    found = Queries()
    execute, cursor = CursorWrapper.execute, BaseDatabaseWrapper.cursor

    def noted_execute(self: Any, sql: str, params: Any = None) -> Any:
        found.note(sql)
        return execute(self, sql, params)

    def noted_cursor(self: Any) -> Any:
        found.note("a cursor")
        return cursor(self)

    monkeypatch.setattr(CursorWrapper, "execute", noted_execute)
    monkeypatch.setattr(BaseDatabaseWrapper, "cursor", noted_cursor)
    return found


def configured() -> str:
    """Rules, groups and a token with grants, of john's. Returns the token."""
    for edit in (
        actions.Edit("groups", "workers", {}),
        actions.Edit(
            "rules",
            "workers",
            {"conditions": r"/event/queue =~ 'work\..*' || /event/topic == news", "groups": ["workers"]},
        ),
    ):
        actions.apply(actions.SYSTEM, [edit])
    john = actions.create_user(actions.SYSTEM, "john", "correct horse battery")
    actions.apply(actions.SYSTEM, [actions.Edit("users", "john", {"groups": ["workers"]})])
    grants = [{"rights": ["send", "receive", "browse", "read"], "destinations": [">"]}]
    return actions.create_token(actions.SYSTEM, User.objects.get(pk=john.pk), "t", grants=grants).secret


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
async def test_thousands_of_messages_make_no_query(tmp_path: Path, queries: Queries) -> None:
    token = await sync_to_async(configured)()
    logins = await sync_to_async(snapshot.make_logins)(False)
    config = Config(data=tmp_path, segment_bytes=MIB, drain=1)
    node = Node(config, logins)
    await node.start(listen("127.0.0.1", 0), None)
    web, stop = listen("127.0.0.1", 0), asyncio.Event()
    port = web.getsockname()[1]
    serving = asyncio.create_task(serve(node.rest, config, web, stop, node.rest.direct))
    queries.counting = True
    await asyncio.to_thread(queries.note, "this is how a query in another thread is seen")
    assert len(queries.seen) == 1
    queries.seen.clear()

    bearer = {"authorization": f"Bearer {token}"}
    async with (
        mom_client.connect(f"stomp://127.0.0.1:{node.stomp_port}", token=token) as mom,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}/api/v1", headers=bearer, trust_env=False
        ) as rest,
        mom.subscribe("/queue/work.a", ack="client-individual", credit=1_000) as messages,
    ):
        sends = MESSAGES // 100
        for number in range(sends):
            await asyncio.gather(*(mom.send("/queue/work.a", f"{number}.{i}") for i in range(98)))
            assert (await rest.post("/queues/work.a/messages", content=b"1")).status_code == 201
            assert (await rest.post("/queues/work.b/messages?", content=b"1")).status_code == 201
            with pytest.raises(mom_client.Refused):
                await mom.send("/queue/closed", "1")
            for _ in range(99):
                await (await messages.get(timeout_s=10)).ack()
        received = await rest.post("/queues/work.b/receive", json={"max": sends})
        receipts = [item["receipt"] for item in received.json()["items"]]
        assert len(receipts) == sends
        assert (await rest.post("/leases/settle", json={"ack": receipts})).status_code == 200
        for path in ("/queues", "/stats", "/queues/work.b/messages", "/connections"):
            assert (await rest.get(path)).status_code == 200
        assert (await rest.post("/queues/closed/messages", content=b"1")).status_code == 403

    queries.counting = False
    stop.set()
    await serving
    await node.stop()
    assert node.broker.turn.counters["published"] == MESSAGES
    assert queries.seen == []
