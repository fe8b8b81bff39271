"""A console whose broker is a member of an enhanced cluster, and ends."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.browser.test_connection import forget_failed_connections
from tests.enhanced_cluster.members import Members, running
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll
from tests.support.redis import redis_server

pytestmark = pytest.mark.process


def webs_linked_to(broker: BrokerProcess) -> list[str]:
    """The web addresses of the brokers that are linked to one."""
    return [link["web"] for link in broker.request("GET", "/api/v1/cluster").json()["links"]]


def test_the_page_of_a_member_that_ends_has_links_to_the_consoles_of_the_others(
    processes: None, tmp_path: Path, open_page: OpenPage, complaints: list[str]
) -> None:
    with redis_server() as server, running(Members(tmp_path, server.url, 2)) as members:
        b1, b2 = members
        poll(lambda: webs_linked_to(b1) == [b2.url])
        page = open_page(b1, "/console/queues/?q=kept", sign_in(b1))
        page.wait_for_selector("mom-cluster-banner", state="attached")
        wait_live(page)
        page.wait_for_load_state("networkidle")
        b1.kill()
        link = page.locator("mom-cluster-banner").get_by_role("link", name=b2.url)
        expect(link).to_have_attribute("href", f"{b2.url}/console/queues/?q=kept")
        expect(page.locator("mom-failover-banner")).to_have_count(0)
        page.close()  # it tries again and again
        forget_failed_connections(complaints)
