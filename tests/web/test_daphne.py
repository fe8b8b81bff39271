"""Daphne serves the pages in a process of their own, next to the broker; messages it leaves to the broker."""

import os
import re
import signal
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.children import Child
from tests.support.patience import patient
from tests.support.polling import poll

pytestmark = pytest.mark.process

_LISTENING = re.compile(r"Listening on TCP address (\S+)\n")


@pytest.fixture(scope="module")
def pages(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The host and port of a Daphne that serves the pages of a broker's data."""
    log = tmp_path_factory.mktemp("daphne") / "daphne.log"
    command = [str(ROOT / ".venv/bin/daphne"), "-b", "127.0.0.1", "-p", "0", "mom_site.asgi:application"]
    with log.open("w") as output:
        daphne = Child(
            command, cwd=ROOT, env={**os.environ, **broker.environment}, stdout=output, stderr=output
        )
    try:
        poll(lambda: _LISTENING.search(log.read_text()))
        yield _LISTENING.findall(log.read_text())[0]
    finally:
        daphne.send_signal(signal.SIGTERM)
        daphne.wait(patient(30))


def test_users_log_in_and_see_the_configuration(broker: BrokerProcess, pages: str) -> None:
    with httpx.Client(base_url=f"http://{pages}", timeout=30) as browser:
        form = browser.get("/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
        assert form.status_code == 200
        assert token is not None
        entered = browser.post(
            "/login/",
            data={"csrfmiddlewaretoken": token[1], "username": broker.user, "password": broker.password},
        )
        assert entered.status_code == 302
        users = browser.get("/console/users/")
        assert users.status_code == 200
        assert broker.user in users.text


def test_messages_are_left_to_the_broker(pages: str) -> None:
    refused = httpx.post(f"http://{pages}/api/v1/queues/orders/messages", content=b"hello", timeout=30)
    assert (refused.status_code, refused.json()["type"]) == (503, "/docs/problems/not-active")
    with pytest.raises(InvalidStatus) as handshake, connect(f"ws://{pages}/ws"):
        pytest.fail("a WebSocket was opened where no broker is")
    assert handshake.value.response.status_code == 403
