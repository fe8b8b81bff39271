"""Pages while the broker is unavailable, and when it is back."""

import re

import pytest
from playwright.sync_api import Page, Route, StorageState, expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.samples import sample

COMES_BACK_MS = 30_000


@pytest.fixture
def own_broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker that may be stopped."""
    return start_broker()


@pytest.fixture
def own_page(own_broker: BrokerProcess, open_page: OpenPage) -> Page:
    own_broker.request("POST", "/api/v1/queues/kept/messages", b"safe", content_type="text/plain")
    page = open_page(own_broker, "/console/", sign_in(own_broker))
    wait_live(page)
    page.wait_for_load_state("networkidle")  # a page whose code is missing is loaded again
    return page


def forget_failed_connections(complaints: list[str]) -> None:
    """The browser itself reports each connection that fails; anything else is still a complaint."""
    network = re.compile(r"WebSocket connection to|Failed to load resource|ERR_")
    complaints[:] = [complaint for complaint in complaints if not network.search(complaint)]


def test_a_killed_broker_is_reported_and_reconnected_without_reloading(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    own_page.evaluate("window.whole = true")
    explorer = own_page.get_by_role("navigation", name="Explorer")
    kept = explorer.locator("mom-branch a[title=kept] .badge")
    expect(kept).to_contain_text("1")
    pill = own_page.locator("mom-live-pill")
    own_broker.kill()
    expect(pill).to_contain_text(re.compile(r"reconnecting \(try \d+, (next in \d+ s|now)\)"))
    # The last values stay, dimmed.
    expect(own_page.locator("html")).to_have_attribute("data-freshness", "stale")
    expect(own_page.locator("mom-banners")).to_contain_text(
        "No connection to the broker. The page shows the status at"
    )
    expect(kept).to_contain_text("1")
    assert own_page.evaluate("document.querySelector('.badge').matches('[data-freshness=stale] .num')")

    own_broker.start()
    expect(pill).to_contain_text(re.compile(r"^\s*live\b"), timeout=COMES_BACK_MS)
    expect(own_page.locator("html")).to_have_attribute("data-freshness", "fresh")
    expect(own_page.locator("mom-banners")).not_to_contain_text("No connection")
    own_broker.request("POST", "/api/v1/queues/kept/messages", b"again", content_type="text/plain")
    expect(kept).to_contain_text("2")
    explorer.get_by_role("link", name="Queues").click()
    expect(own_page.get_by_role("heading", level=1, name="Queues")).to_be_focused()
    assert own_page.evaluate("window.whole"), "the page was reloaded"
    forget_failed_connections(complaints)


def test_an_ended_session_shows_signed_out(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    own_broker.terminate()
    own_page.context.clear_cookies()  # the first refusal then comes with the dialog at hand
    own_broker.start()
    pill = own_page.locator("mom-live-pill")
    expect(pill).to_contain_text("signed out", timeout=COMES_BACK_MS)
    expect(own_page.locator("mom-banners")).to_contain_text("You are signed out")
    own_page.get_by_role("dialog", name="You are signed out").get_by_role("link", name="Sign in").click()
    own_page.wait_for_url("**/login/?next=/console/")
    forget_failed_connections(complaints)


def test_signing_out_elsewhere_ends_updates_and_asks_to_sign_in(
    own_broker: BrokerProcess, own_page: Page, complaints: list[str]
) -> None:
    elsewhere = own_page.context.new_page()
    elsewhere.goto(f"{own_broker.url}/console/")
    elsewhere.get_by_role("button", name=re.compile("^Account of")).click()
    elsewhere.get_by_role("button", name="Sign out").click()
    own_page.bring_to_front()
    dialog = own_page.get_by_role("dialog", name="You are signed out")
    expect(dialog).to_be_visible()
    expect(own_page.locator("mom-live-pill")).to_contain_text("signed out")
    dialog.get_by_role("button", name="Stay on this page").click()
    expect(dialog).to_have_count(0)
    expect(own_page.locator("mom-banners")).to_contain_text("You are signed out")
    forget_failed_connections(complaints)


def test_a_request_refused_without_a_session_shows_signed_out(own_page: Page, complaints: list[str]) -> None:
    # The WebSocket stays open; only requests carry the cookie.
    own_page.get_by_role("navigation", name="Explorer").get_by_role("link", name="Queues").click()
    expect(own_page.get_by_role("heading", level=1, name="Queues")).to_be_focused()
    own_page.context.clear_cookies()
    own_page.get_by_role("navigation", name="Explorer").get_by_role("searchbox").fill("kept")
    expect(own_page.locator("mom-live-pill")).to_contain_text("signed out")
    expect(own_page.get_by_role("dialog", name="You are signed out")).to_be_visible()
    own_page.close()  # other requests are being refused, too
    forget_failed_connections(complaints)


#: pages, and what is drawn on them by what is loaded after the page itself
PARTS = {
    "queues/": "tbody tr:has-text('kept')",
    "queues/one?name=kept&tab=messages": "mom-message-browser tbody tr:has-text('safe')",
    "queues/one?name=kept&tab=history": "mom-destination-history svg",
    "queues/one?name=kept&tab=consumers": "mom-consumer-list .empty",
    "topics/one?name=prices&tab=subscriptions": "mom-subscription-list .empty",
}
#: what draws the frame of a page comes with the page; all other code may be missing
FRAME = re.compile(r"/assets/(console|vendor|frame|rolldown)[^/]*$")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("queues/", "its code"), *((path, "what it shows") for path in sample(PARTS, 2))],
)
def test_failed_parts_are_loaded_when_the_broker_is_back(
    broker: BrokerProcess,
    open_page: OpenPage,
    session: StorageState,
    complaints: list[str],
    path: str,
    kind: str,
) -> None:
    broker.request("PUT", "/api/v1/queues/kept", json_body={})
    broker.request("POST", "/api/v1/queues/kept/messages", b"safe", content_type="text/plain")
    broker.request("POST", "/api/v1/topics/prices/messages", b"1", content_type="text/plain")
    page = open_page(broker, "/console/settings/", session)
    wait_live(page)
    came, refused = set[str](), list[str]()

    def refuse(route: Route) -> None:
        """The page and its frame come once; then the broker is away."""
        address = route.request.url
        goes = "/assets/" in address if kind == "its code" else "/api/v1/" in address
        if not goes or (FRAME.search(address) and address not in came):
            came.add(address)
            return route.continue_()
        refused.append(address)
        return route.abort("connectionrefused")

    page.route("**/*", refuse)
    page.goto(f"{broker.url}/console/{path}")
    shown = page.locator(PARTS[path]).first
    while not refused:
        page.wait_for_timeout(50)
    expect(shown).to_have_count(0)
    page.unroute("**/*")
    expect(shown).to_be_visible()
    # Its style is there, too.
    assert page.evaluate("[...document.querySelectorAll('link[rel=stylesheet]')].every((link) => link.sheet)")
    forget_failed_connections(complaints)
