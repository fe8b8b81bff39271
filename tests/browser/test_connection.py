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


def test_a_broker_that_is_killed_is_told_of_and_taken_up_again_without_loading_the_page(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    own_page.evaluate("window.whole = true")
    explorer = own_page.get_by_role("navigation", name="Explorer")
    kept = explorer.get_by_role("link", name=re.compile("^kept")).locator(".badge")
    expect(kept).to_contain_text("1")
    pill = own_page.locator("mom-live-pill")
    own_broker.kill()
    expect(pill).to_contain_text(re.compile(r"reconnecting \(try \d+, (next \d+ s|now)\)"))
    # The last figures stay, and look as old as they are.
    expect(own_page.locator("html")).to_have_attribute("data-freshness", "stale")
    expect(own_page.locator("mom-banners")).to_contain_text(
        "No connection to the broker. What is shown is of"
    )
    expect(kept).to_contain_text("1")
    assert own_page.evaluate("document.querySelector('.badge').matches('[data-freshness=stale] .num')")

    own_broker.start()
    expect(pill).to_contain_text(re.compile(r"live \d"), timeout=COMES_BACK_MS)
    expect(own_page.locator("html")).to_have_attribute("data-freshness", "fresh")
    expect(own_page.locator("mom-banners")).not_to_contain_text("No connection")
    own_broker.request("POST", "/api/v1/queues/kept/messages", b"again", content_type="text/plain")
    expect(kept).to_contain_text("2")
    explorer.get_by_role("link", name="Queues", exact=False).first.click()
    expect(own_page.get_by_role("heading", level=1, name="Queues")).to_be_focused()
    assert own_page.evaluate("window.whole"), "the page was loaded anew"
    forget_failed_connections(complaints)


def test_a_session_that_has_ended_says_signed_out(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    own_page.context.clear_cookies()
    own_broker.restart()
    pill = own_page.locator("mom-live-pill")
    expect(pill).to_contain_text("signed out", timeout=COMES_BACK_MS)
    expect(own_page.locator("mom-banners")).to_contain_text("You are signed out")
    pill.get_by_role("link", name="sign in").click()
    own_page.wait_for_url("**/login/?next=/console/")
    forget_failed_connections(complaints)
