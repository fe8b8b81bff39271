"""No request that changed the configuration is answered before the node obeys it, however long that takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from threading import Thread

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from broker_app.web import actions, policy_sync
from broker_app.web.actions import SYSTEM
from broker_app.web.policy_sync import AppliedFirst
from broker_app.web.snapshot import read_version

pytestmark = pytest.mark.django_db(transaction=True)


class Held:
    """A node that obeys when it is let; `asked` are the versions that were waited for."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.asked: list[int] = []
        self.let = asyncio.Event()

    async def wait_policy(self, version: int) -> None:
        self.asked.append(version)
        await self.let.wait()


@pytest.fixture
def node() -> Iterator[Held]:
    held = Held()
    running = Thread(target=held.loop.run_forever)
    running.start()
    yield held
    held.loop.call_soon_threadsafe(held.loop.stop)
    running.join()
    held.loop.run_until_complete(asyncio.sleep(0))
    held.loop.close()


def asked_for(node: Held) -> HttpRequest:
    request = HttpRequest()
    request.scope = {"mom.node": node}  # type: ignore[attr-defined]
    return request


def make_token(request: HttpRequest) -> HttpResponse:
    actions.create_token(SYSTEM, User.objects.get(username="admin"), "first")
    return HttpResponse("made")


def test_a_change_is_answered_once_the_node_applies_it(admin: User, node: Held) -> None:
    node.loop.call_soon_threadsafe(node.let.set)
    assert AppliedFirst(make_token)(asked_for(node)).status_code == 200
    assert node.asked == [read_version()]


def test_an_unchanged_policy_is_answered_at_once(admin: User, node: Held) -> None:
    assert AppliedFirst(lambda request: HttpResponse("seen"))(asked_for(node)).status_code == 200
    assert node.asked == []


def test_a_node_that_is_stuck_keeps_no_answer_that_is_saved(
    admin: User, node: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(policy_sync, "_APPLIES_S", 0.05)
    with caplog.at_level(logging.WARNING):
        assert AppliedFirst(make_token)(asked_for(node)).status_code == 200
    assert "is saved, but was not applied" in caplog.text
