"""The pages of services, of messages to profiles and of callbacks, and the order to shut down."""

import base64
import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.browser.looks import assert_looks, assert_no_violations
from tests.browser.test_connection import forget_failed_connections
from tests.browser.test_connections import until
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

#: in `make soak` colours are looked at in both themes
EVERY_LOOK = bool(os.environ.get("EVERY_LOOK"))


@contextlib.contextmanager
def stomp_service(broker: BrokerProcess, name: str, **headers: str) -> Iterator[socket.socket]:
    """A program that is registered as a service, for the length of a `with` block."""
    lines = "".join(f"mom-{header.replace('_', '-')}:{value}\n" for header, value in headers.items())
    with socket.create_connection((broker.host, broker.stomp_port), 30) as client:
        client.sendall(
            f"CONNECT\naccept-version:1.2\nhost:/\nclient-id:{name}-client\nlogin:{broker.user}\n"
            f"passcode:{broker.password}\nmom-service:{name}\n{lines}\n\0".encode()
        )
        until(client, b"CONNECTED")
        yield client


def test_a_service_appears_is_deactivated_activated_and_deregistered(
    page: Page, broker: BrokerProcess
) -> None:
    page.get_by_role("link", name="Services", exact=True).click()
    expect(page.get_by_text("No program is registered as a service.")).to_be_visible()
    with stomp_service(broker, "stock", machine="h1", service_type="shop"):
        row = page.get_by_role("row", name=re.compile("^stock "))
        for text in ("active", "shop", "h1", broker.user):
            expect(row).to_contain_text(text)
        broker.request("POST", "/api/v1/queues/stock/messages", b"1", content_type="text/plain")
        expect(row.get_by_role("cell").nth(6)).to_have_text("1")

        row.get_by_role("button", name="Deactivate stock").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("no copies of messages to profiles")
        expect(dialog).to_contain_text("1 message stays in its queue")
        dialog.get_by_label(re.compile("^Reason")).fill("stocktaking")
        dialog.get_by_role("button", name="Deactivate").click()
        expect(row).to_contain_text("inactive")
        page.locator("#toasts").get_by_role("button", name="Undo").click()
        expect(row.get_by_role("button", name="Deactivate stock")).to_be_visible()

        page.get_by_role("button", name="inactive").click()
        expect(page.get_by_text("No service matches the filter.")).to_be_visible()
        page.get_by_role("button", name="Clear filter").click()
        row.get_by_role("link", name="stock").click()
        expect(page.locator(".standing")).to_contain_text("stock")
        expect(page.locator("mom-service-page")).to_contain_text("1 message waits in its queue.")
        page.locator("mom-service-page dd a").first.click()
        expect(page.locator("mom-connection-page .pairs")).to_contain_text("stock")
        page.get_by_role("link", name="Connections", exact=True).first.click()
        expect(page.get_by_role("row", name=re.compile("stock-client"))).to_contain_text("stock-client stock")
        page.get_by_role("link", name="Services", exact=True).click()
        row.get_by_role("button", name="Deregister stock").click()
        expect(dialog).to_contain_text("The connection of its program stays open")
        dialog.get_by_role("button", name="Deregister").click()
        expect(row).to_have_count(0)
        expect(page.locator("#toasts")).to_contain_text("Service stock is deregistered.")
    (shown,) = broker.request("GET", "/api/v1/audit?action=deactivated").json()["items"]
    assert (shown["kind"], shown["name"], shown["reason"]) == ("services", "stock", "stocktaking")


def test_a_seed_message_shows_its_copies_and_is_removed(page: Page, broker: BrokerProcess) -> None:
    page.get_by_role("link", name="Services", exact=True).click()
    expect(page.get_by_text("No message to a profile waits")).to_be_visible()
    sent = broker.request(
        "POST",
        "/api/v1/profiles/messages?profile=type%20=%20%27till%27&max_copies=3",
        b"new prices",
        content_type="text/plain",
        mom_expires_s="3600",
    )
    assert sent.status == 201, sent.body
    row = page.get_by_role("row", name=re.compile("type = 'till'"))
    expect(row).to_contain_text("0 of 3")
    with stomp_service(broker, "till-1", service_type="till"):
        expect(row).to_contain_text("1 of 3")
        expect(row.get_by_role("link", name="till-1")).to_be_visible()
    row.get_by_role("button", name=re.compile("^Remove")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("of up to 2 more. Its 1 copy stays.")
    dialog.get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    assert broker.request("GET", "/api/v1/seeds").json()["items"] == []


def test_live_subscribers_are_shown_with_their_events(page: Page, broker: BrokerProcess) -> None:
    page.get_by_role("link", name="Callbacks", exact=True).click()
    expect(page.get_by_text("No program is called over an open connection.")).to_be_visible()
    expect(page.get_by_role("heading", name="Origins")).to_have_count(0)
    request = (
        f"GET /api/v1/queues/live/events?mode=notify HTTP/1.1\r\nHost: {broker.host}:{broker.port}\r\n"
        f"Authorization: {basic(broker)}\r\nAccept: text/event-stream\r\n\r\n"
    )
    with socket.create_connection((broker.host, broker.port), 30) as stream:
        stream.sendall(request.encode())
        row = page.get_by_role("row", name=re.compile("queue.live"))
        expect(row).to_contain_text("notify")
        expect(row).to_contain_text("event stream")
        broker.request("POST", "/api/v1/queues/live/messages", b"1", content_type="text/plain")
        expect(row.locator("td.num").last).to_have_text("1")
    expect(row).to_have_count(0)


def basic(broker: BrokerProcess) -> str:
    return "Basic " + base64.b64encode(f"{broker.user}:{broker.password}".encode()).decode()


@pytest.fixture
def callback_broker(start_broker: StartBroker, tmp_path: Path) -> tuple[BrokerProcess, BrokerProcess]:
    """A remote broker and a callback broker, at which service `stock` is registered."""
    remote = start_broker("--reflex-file", "CBdefault.cnf")
    local = start_broker(
        *("--name", "REcallback", "--role", "-2"), environment={"XDG_STATE_HOME": str(tmp_path / "state")}
    )
    origin = {
        "urls": [f"ws://{remote.host}:{remote.port}/ws"],
        "login": remote.user,
        "passcode": remote.password,
    }
    service = {"name": "stock", "machine": "h1", "lease_s": 600, "origin": origin}
    registered = local.request("POST", "/api/v1/services", json_body=service)
    assert registered.status == 201, registered.body
    return remote, local


def test_a_callback_broker_shows_its_origins_and_is_shut_down(
    callback_broker: tuple[BrokerProcess, BrokerProcess],
    open_page: OpenPage,
    complaints: list[str],
) -> None:
    remote, local = callback_broker
    page = open_page(local, "/console/callbacks/", sign_in(local))
    wait_live(page)
    origin = page.get_by_role("row", name=re.compile("^ws:"))
    expect(origin).to_contain_text("connected")
    for body in (b"1", b"2"):
        remote.request("POST", "/api/v1/queues/stock/messages", body, content_type="text/plain")
    numbers = origin.locator("td.num")
    expect(numbers).to_have_text(["1", "2", "0", "0", "0", "0"])
    taken = local.request("POST", "/api/v1/queues/stock/receive", json_body={"max": 1}).json()["items"]
    assert [item["body"] for item in taken] == ["1"]
    expect(numbers).to_have_text(["1", "1", "1", "1", "0", "1"])
    expect(page.get_by_role("row", name=re.compile("^stock"))).to_be_visible()
    assert_looks(page, EVERY_LOOK)

    page.get_by_role("link", name="Services", exact=True).click()
    row = page.get_by_role("row", name=re.compile("^stock"))
    expect(row).to_contain_text(f"ws://{remote.host}:{remote.port}/ws")
    row.get_by_role("link", name="stock").click()
    expect(page.get_by_role("row", name=re.compile("held by a consumer"))).to_have_count(1)
    expect(page.get_by_role("row", name=re.compile("waiting"))).to_have_count(1)
    assert_looks(page, EVERY_LOOK)

    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_role("button", name="Shut down…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Programs of this machine receive from their origins directly.")
    expect(dialog).to_contain_text("1 service is deregistered")
    assert_no_violations(page)
    dialog.get_by_label(re.compile("^Reason")).fill("not needed")
    dialog.get_by_role("button", name="Shut down", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("REcallback shuts down.")
    poll(lambda: not local.running)
    page.close()
    forget_failed_connections(complaints)


def test_a_broker_without_mirrors_is_not_shut_down_by_accident(page: Page, broker: BrokerProcess) -> None:
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_role("button", name="Shut down…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It does not start by itself")
    expect(dialog).to_contain_text("No mirror takes over")
    expect(dialog).to_contain_text(re.compile("connections? ends?.* that of this page"))
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert broker.running
    assert broker.request("GET", "/api/v1/health/ready").status == 200


def test_a_shutdown_that_is_planned_is_shown_with_the_time_that_is_left_and_called_off(
    page: Page, broker: BrokerProcess
) -> None:
    name = broker.request("GET", "/api/v1/broker").json()["name"]
    order = {"name": name, "reason": "new disks", "delay_s": 900}
    assert broker.request("POST", "/api/v1/shutdown", json_body=order).status == 202
    page.goto("/console/settings/")
    left = page.locator("mom-broker-state .notice")
    expect(left).to_contain_text(re.compile(r"It stops in (900|8\d\d) s; Unquiesce calls that off\."))
    expect(left).to_contain_text(re.compile("Ordered by admin, .*: new disks"))
    page.get_by_role("button", name="Unquiesce…").click()
    page.get_by_role("dialog").get_by_role("button", name="Unquiesce", exact=True).click()
    expect(left).to_have_count(0)
    assert broker.request("GET", "/api/v1/broker").json()["shutdown"] is None
