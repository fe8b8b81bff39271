"""What the page says and does when the broker goes away and comes back."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.support.broker_process import BrokerProcess, StartBroker

COMES_BACK_MS = 30_000


@pytest.fixture
def own_broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker that may be stopped."""
    return start_broker()


@pytest.fixture
def own_page(own_broker: BrokerProcess, chromium: Browser, open_page: OpenPage) -> Page:
    own_broker.request("POST", "/api/v1/queues/kept/messages", b"safe", content_type="text/plain")
    page = open_page(own_broker, "/console/", sign_in(chromium, own_broker))
    wait_live(page)
    return page


def forget_failed_connections(complaints: list[str]) -> None:
    """The browser itself reports each connection that fails; anything else is still a complaint."""
    network = re.compile(r"WebSocket connection to|Failed to load resource|ERR_")
    complaints[:] = [complaint for complaint in complaints if not network.search(complaint)]


def test_the_page_reconnects_after_a_restart_and_says_so_meanwhile(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    pill = own_page.locator("mom-live-pill")
    own_broker.terminate()
    expect(pill).to_contain_text(re.compile(r"reconnecting \(try \d+, (next \d+ s|now)\)"))
    expect(own_page.locator("html")).to_have_attribute("data-freshness", "stale")
    own_broker.start()
    expect(pill).to_contain_text(re.compile(r"live \d"), timeout=COMES_BACK_MS)
    expect(own_page.locator("html")).to_have_attribute("data-freshness", "fresh")
    own_broker.request("POST", "/api/v1/queues/kept/messages", b"again", content_type="text/plain")
    expect(own_page.locator("tbody .col-depth")).to_have_text("2")
    forget_failed_connections(complaints)


def test_publishing_without_a_connection_never_looks_confirmed(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    own_page.goto("/console/?show=/queue/kept&tab=publish")
    wait_live(own_page)
    own_broker.kill()
    expect(own_page.locator("mom-live-pill")).to_contain_text("reconnecting")
    own_page.locator("form.publish").get_by_role("button", name="Publish").click()
    expect(own_page.locator("form.publish .notice")).to_contain_text("Not confirmed. Not sent")
    forget_failed_connections(complaints)


def test_a_session_that_has_ended_says_signed_out(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    own_page.context.clear_cookies()
    own_broker.restart()
    pill = own_page.locator("mom-live-pill")
    expect(pill).to_contain_text("signed out", timeout=COMES_BACK_MS)
    pill.get_by_role("link", name="sign in").click()
    own_page.wait_for_url("**/login/?next=/console/")
    forget_failed_connections(complaints)
