"""A console whose broker is a member of an enhanced cluster, and ends."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.browser.test_connection import forget_failed_connections
from tests.enhanced_cluster.members import Members
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll
from tests.support.redis import redis_server

pytestmark = pytest.mark.process


def webs_linked_to(broker: BrokerProcess) -> list[str]:
    """The web addresses of the brokers that are linked to one."""
    return [link["web"] for link in broker.request("GET", "/api/v1/cluster").json()["links"]]


def web_socket_of(broker: BrokerProcess) -> str:
    """The address of a broker for clients with WebSockets, as lists have it; it has a port once it runs."""
    return f"ws://{broker.host}:{broker.port}/ws"


def test_the_page_of_a_member_that_ends_has_links_to_the_consoles_of_the_others(
    processes: None, tmp_path: Path, open_page: OpenPage, complaints: list[str]
) -> None:
    """One of them has joined after the page was loaded: the page knows it by the list that it was sent."""
    with ExitStack() as stack:
        b1, b2, b3 = Members(tmp_path, stack.enter_context(redis_server()).url, 3)
        for broker in (b1, b2, b3):
            stack.callback(broker.kill)
        b1.start()
        b2.start()
        poll(lambda: webs_linked_to(b1) == [b2.url])
        page = open_page(b1, None, sign_in(b1))
        with page.expect_websocket() as opened:
            page.goto(f"{b1.url}/console/queues/?q=kept")
        page.wait_for_selector("mom-cluster-banner", state="attached")
        wait_live(page)
        page.wait_for_load_state("networkidle")
        with opened.value.expect_event("framereceived", lambda frame: web_socket_of(b3) in str(frame)):
            b3.start()
        b1.kill()
        banner = page.locator("mom-cluster-banner")
        for broker in (b2, b3):
            link = banner.get_by_role("link", name=broker.url, exact=True)
            expect(link).to_have_attribute("href", f"{broker.url}/console/queues/?q=kept")
        expect(page.locator("mom-failover-banner")).to_have_count(0)
        page.close()  # it tries again and again
        forget_failed_connections(complaints)
