"""Names of store-and-forward queues at their limits, by every door of a real broker."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest

from mom_client import Refused
from tests.forwarding.home import BOTH_LINES, Home, client, connection
from tests.support.broker_process import BrokerFailed, BrokerProcess, Reply, StartBroker

BROKER, QUEUE = "b" * 20, "q" * 79
#: broker, queue, and their configuration
WRONG = [
    (BROKER + "b", QUEUE, r"broker name .*21 characters; at most 20"),
    (BROKER, QUEUE + "q", r"queue name .*80 characters; at most 79"),
    ("", "q", r"broker name .*is empty; 1 to 20"),
    ("b", "", r"queue name .*is empty; 1 to 79"),
    ("a/b", "q", r"broker name 'a/b' .*contains '/'; neither / nor :"),
    ("a:b", "q", r"broker name 'a:b' .*contains ':'; neither / nor :"),
]


@pytest.fixture(scope="module", autouse=True)
def bridge(broker: BrokerProcess) -> None:
    """A bridge with the longest name, which leads nowhere."""
    said = {"hostname": "127.0.0.1", "port": 1, "desired": "paused"}
    made = broker.request("PUT", f"/api/v1/bridges/{BROKER}", json_body=said, if_none_match="*")
    assert made.status == 201, made.body


@pytest.fixture(scope="module")
def console(broker: BrokerProcess) -> Iterator[httpx.Client]:
    """A browser of the administrator, without pictures."""
    with httpx.Client(base_url=broker.url, follow_redirects=True, headers={"referer": broker.url}) as browser:
        assert browser.get(broker.login_link()).status_code == 200
        yield browser


def added(console: httpx.Client, name: str) -> str:
    """The page's reply when a bridge of this name is added."""
    page = console.get("/console/bridges/add").text
    form = dict(re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', page))
    form |= {
        "name": name,
        "hostname": "127.0.0.1",
        "protocol": "stomp",
        "desired": "paused",
        "action": "save",
    }
    return html.unescape(console.post("/console/bridges/add", data=form).text)


def queues(broker: BrokerProcess) -> set[str]:
    rows = broker.request("GET", "/api/v1/queues?limit=200").json()["items"]
    return {row["name"] for row in rows if row["name"].startswith("storeAndForward:")}


def path(text: str) -> str:
    return quote(text, safe="")


def publish(broker: BrokerProcess, to: str, queue: str) -> Reply:
    name = urlencode({"queue": f"storeAndForward:{to}/queue/{queue}"})
    return broker.request("POST", f"/api/v1/queues/messages?{name}", b"1")


def make(broker: BrokerProcess, to: str, queue: str) -> Reply:
    return broker.request("POST", f"/api/v1/bridges/{path(to)}/queues/{path(queue)}", json_body={})


@pytest.mark.parametrize("door", [publish, make])
def test_rest_takes_the_longest_names_and_refuses_longer_ones(
    broker: BrokerProcess, door: Callable[[BrokerProcess, str, str], Reply]
) -> None:
    taken = door(broker, BROKER, QUEUE)
    assert taken.status in (200, 201), taken.body
    assert f"storeAndForward:{BROKER}/queue/{QUEUE}" in queues(broker)
    before = queues(broker)
    for to, queue, told in WRONG:
        if door is make and not (to and queue):
            continue  # an empty part of a path is another path
        refused = door(broker, to, queue)
        assert refused.status == 400, refused.body
        assert re.search(told, str(refused.json())), refused.body
    assert queues(broker) == before


async def test_stomp_and_the_client_library_refuse_the_same(broker: BrokerProcess) -> None:
    async with client(broker, "admin") as mom:
        await mom.send(f"/queue/storeAndForward:{BROKER}/queue/{QUEUE}", "by its name")
        await mom.send(mom.destination(QUEUE, store_and_forward=True, broker=BROKER), "by its parts")
        await mom.send(f"/bridge/{BROKER}/{QUEUE}", "by its address")
        before = queues(broker)
        for to, queue, told in WRONG:
            with pytest.raises(Refused, match=told) as refused:
                await mom.send(f"/queue/storeAndForward:{to}/queue/{queue}", "no")
            assert refused.value.code == "bad-destination"
            if to:
                with pytest.raises(ValueError, match=told):
                    mom.destination(queue, store_and_forward=True, broker=to)
        assert queues(broker) == before


def test_an_orphan_has_a_form_too(broker: BrokerProcess) -> None:
    before = queues(broker)
    for name in ("storeAndForward:", "storeAndForward:b", "storeAndForward:b/q"):
        refused = broker.request("POST", f"/api/v1/queues/messages?{urlencode({'queue': name})}", b"1")
        assert (refused.status, "storeAndForward:<broker>/queue/<queue>" in refused.json()["detail"]) == (
            400,
            True,
        ), refused.body
    assert queues(broker) == before


BRIDGES = [
    (BROKER + "b", "name has 1 to 20 characters; this has 21"),
    ("a/b", "name has neither / nor : in it"),
    ("a:b", "name has neither / nor : in it"),
    (" ", "name has 1 to 20 characters"),
]


@pytest.mark.parametrize(("name", "told"), BRIDGES)
def test_connections_of_such_names_are_made_neither_by_rest_nor_in_the_console(
    broker: BrokerProcess, console: httpx.Client, name: str, told: str
) -> None:
    said = {"hostname": "127.0.0.1"}
    refused = broker.request("PUT", f"/api/v1/bridges/{path(name)}", json_body=said, if_none_match="*")
    assert refused.status == 400 and told in str(refused.json()), refused.body
    page = added(console, name)
    assert (told if name.strip() else "This field is required") in page
    assert broker.request("GET", "/api/v1/bridges").json()["approx_total"] == 1


def test_a_file_refuses_such_names_at_its_start_and_when_it_changes(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "zero.config").write_text(BOTH_LINES)
    (folder / "brokers.config").write_text("\n\n" + connection(BROKER + "b", 1))
    with pytest.raises(BrokerFailed, match=r"brokers\.config:3:.* 1 to 20 characters; this has 21"):
        start_broker("--config-file", str(folder / "zero.config"))
    home = Home(tmp_path / "config", start_broker)
    assert home.change(connection(BROKER, 1, desired="paused"))["outcome"] == "applied"
    for name, told in BRIDGES:
        member = '{"%s": {"hostname": "h"}}' % name  # noqa: UP031
        reload = home.change(f"\n/config/connection/messaging += {member}\n")
        assert reload["outcome"] == "refused"
        (error,) = reload["errors"]
        assert (error["line"], told in error["detail"]) == (2, True), error
    found = home.broker.request("GET", "/api/v1/bridges").json()["items"]
    assert [bridge["name"] for bridge in found] == [BROKER]
