"""A console whose broker is a member of an enhanced cluster, and ends."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mom_client import blocking
from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.browser.test_connection import forget_failed_connections
from tests.enhanced_cluster.members import Members
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll
from tests.support.redis import redis_server

pytestmark = pytest.mark.process


def webs_linked_to(broker: BrokerProcess) -> list[str]:
    """The web addresses of the brokers that are linked to one."""
    return [link["web"] for link in broker.request("GET", "/api/v1/cluster").json()["links"]]


def removals(broker: BrokerProcess) -> list[tuple[str, str]]:
    """The members whose removal was ordered, with the reasons, by the audit log."""
    entries = broker.request("GET", "/api/v1/audit?kind=cluster&action=removal%20ordered").json()["items"]
    return [(entry["name"], entry["reason"]) for entry in entries]


def web_socket_of(broker: BrokerProcess) -> str:
    """The address of a broker for clients with WebSockets, as lists have it; it has a port once it runs."""
    return f"ws://{broker.host}:{broker.port}/ws"


def test_the_page_of_a_client_has_the_version_and_the_age_of_its_list_of_brokers(
    start_broker: StartBroker, open_page: OpenPage
) -> None:
    broker = start_broker(
        *("--cluster-port", "0", "--update-cluster-clients"),
        environment={"MOM_CLUSTER_SECRET": "what the brokers of a cluster share"},
    )
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    with blocking.Client(address, login=broker.user, passcode=broker.password):
        (client,) = broker.request("GET", "/api/v1/connections").json()["items"]
        page = open_page(broker, f"/console/connections/one?id={client['id']}", sign_in(broker))
        held = page.locator(".pairs dt", has_text="list of brokers").locator("+ dd")
        expect(held).to_contain_text("version 1 ·")
        expect(held.locator("time")).to_have_count(1)
        page.goto("/console/cluster/")
        expect(page.get_by_role("main")).to_contain_text("mom is alone in its cluster")


def test_a_member_that_is_gone_for_good_is_removed_on_the_page_of_the_cluster(
    processes: None, tmp_path: Path, open_page: OpenPage, complaints: list[str]
) -> None:
    with ExitStack() as stack:
        b1, b2 = Members(tmp_path, stack.enter_context(redis_server()).url, 2)
        for broker in (b1, b2):
            stack.callback(broker.kill)
            broker.start()
        b2.request("POST", "/api/v1/queues/orders/messages", json_body=1)
        down = {"name": "b2", "no_failover": True}
        assert b2.request("POST", "/api/v1/shutdown", json_body=down).status == 202
        page = open_page(b1, "/console/cluster/", sign_in(b1))
        row = page.locator(".brokers [data-row=b2]", has=page.locator("mom-member-removal"))
        dialog, toast = page.get_by_role("dialog"), page.locator("#toasts")
        row.get_by_role("button", name="Remove member b2").click(timeout=30_000)
        expect(dialog).to_contain_text("1 message in its journal was not delivered.")
        dialog.get_by_role("button", name="Remove", exact=True).click()
        expect(toast).to_contain_text("shop.b2 may have messages (1 as was last noted)")
        expect(row).to_have_count(1)
        row.get_by_role("button").click()
        dialog.get_by_label("Delete messages that were not delivered").check()
        dialog.get_by_label("Reason").fill("its machine is sold")
        dialog.get_by_role("button", name="Remove", exact=True).click()
        expect(toast).to_contain_text("b2 is no longer a member of the cluster.")
        expect(row).to_have_count(0, timeout=30_000)
        poll(lambda: ("b2", "its machine is sold") in removals(b1))
        page.close()
        forget_failed_connections(complaints)  # of the refused order, and to b2


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
