"""The frame: navigation, explorer, palette, shortcuts, times, history of the browser."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import wait_live
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll

QUEUES = ("orders.new", "orders.eu", *(f"frame.{number:02}" for number in range(14)))


@pytest.fixture(scope="module", autouse=True)
def destinations(broker: BrokerProcess) -> None:
    for queue in QUEUES:
        send(broker, queue)


def send(broker: BrokerProcess, queue: str) -> None:
    reply = broker.request("POST", f"/api/v1/queues/{queue}/messages", b"x", content_type="text/plain")
    assert reply.status == 201, reply.body


def test_pages_change_inside_the_frame_and_back_restores_them(page: Page, complaints: list[str]) -> None:
    page.evaluate("window.whole = true")
    explorer = page.get_by_role("navigation", name="Explorer")
    explorer.get_by_role("link", name="Queues").click()
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(page).to_have_title(re.compile("^Queues"))
    expect(explorer.locator("[aria-current=page]")).to_contain_text("Queues")

    explorer.get_by_role("link", name="Audit").click()
    expect(page).to_have_title(re.compile("^Audit"))
    page.get_by_label("Filter").first.press("Tab")
    page.go_back()
    expect(page).to_have_title(re.compile("^Queues"))
    expect(page.get_by_role("heading", level=1, name="Queues")).to_be_focused()
    page.go_forward()
    expect(page).to_have_title(re.compile("^Audit"))

    # Unknown pages are shown inside the frame, and a refused form keeps its input.
    page.evaluate("document.querySelector('#navigation a[href$=\"groups/\"]').href = '/console/none'")
    explorer.get_by_role("link", name="Groups").click()
    expect(page.get_by_role("heading", level=1, name="This page does not exist")).to_be_focused()
    page.go_back()
    expect(page).to_have_title(re.compile("^Audit"))
    assert page.evaluate("window.whole"), "the page was loaded whole somewhere"
    complaints[:] = [complaint for complaint in complaints if "404" not in complaint]

    # Signed out elsewhere: the form to sign in comes whole, and leads back.
    context: BrowserContext = page.context
    context.clear_cookies()
    explorer.get_by_role("link", name="Users").click()
    page.wait_for_url("**/login/?next=/console/users/")


def test_back_leads_to_where_a_list_was_left(page: Page, broker: BrokerProcess) -> None:
    for number in range(60):
        send(broker, f"scrolled.{number:02}")
    page.goto("/console/queues/?filter=scrolled")
    rows = page.locator("main tbody th").get_by_role("link")
    expect(rows).to_have_count(60)
    rows.last.scroll_into_view_if_needed()
    scroll = "document.querySelector('#main > *').scrollTop"
    left_at = page.evaluate(scroll)
    assert left_at > 0
    rows.last.click()
    expect(page.get_by_role("heading", level=1, name="scrolled.59")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", level=1, name="Queues")).to_be_visible()
    poll(lambda: page.evaluate(scroll) == left_at)
    # The user's own scrolling is not undone when rows are updated.
    page.mouse.move(700, 400)
    page.mouse.wheel(0, -100_000)
    poll(lambda: page.evaluate(scroll) == 0)
    send(broker, "scrolled.60")
    expect(page.get_by_role("button", name="1 new one: show")).to_be_visible()
    assert page.evaluate(scroll) == 0


def test_the_explorer_loads_levels_updates_and_filters(page: Page, broker: BrokerProcess) -> None:
    page.goto("/console/queues/")
    explorer = page.get_by_role("navigation", name="Explorer")
    expect(explorer.get_by_text("orders.", exact=True)).to_be_visible()
    expect(explorer.get_by_role("link", name=re.compile("^eu"))).to_have_count(0)
    explorer.get_by_text("orders.", exact=True).click()
    eu = explorer.get_by_role("link", name=re.compile("^eu"))
    expect(eu.locator(".badge")).to_contain_text("1")
    expect(eu.get_by_role("img", name="needs attention")).to_be_visible()
    send(broker, "orders.eu")
    expect(eu.locator(".badge")).to_contain_text("2")
    eu.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders.eu")
    expect(eu).to_have_attribute("aria-current", "page")
    expect(explorer.get_by_role("link", name="Queues")).to_have_attribute("aria-current", "true")

    field = page.get_by_label("Filter explorer")
    field.fill("frame.1")
    expect(explorer.locator("mom-branch[kind=queue] li")).to_have_count(4)
    field.press("Escape")
    expect(explorer.get_by_text("frame.", exact=True)).to_be_visible()


def test_all_pages_are_in_sight_and_the_tree_only_where_destinations_are(page: Page) -> None:
    pages, tree = page.locator("#pages"), page.get_by_label("Filter explorer")
    page.set_viewport_size({"width": 1440, "height": 720})
    expect(tree).to_be_hidden()
    assert pages.evaluate("(it) => it.scrollHeight <= it.clientHeight"), "the pages need a scroll bar"
    assert pages.locator("a").count() == pages.locator("a > .icon").count() > 20
    pages.get_by_role("link", name="Queues").click()
    expect(tree).to_be_visible()
    main = page.locator("main").bounding_box()
    assert main is not None and main["width"] > 1000
    # Many destinations scroll below their filter, and leave the pages where they are.
    assert page.locator(".tree .scroll").evaluate("(it) => getComputedStyle(it).overflowY") == "auto"


def test_palette_and_shortcuts_navigate_and_pause_with_undo(page: Page, broker: BrokerProcess) -> None:
    def paused() -> object:
        return broker.request("GET", "/api/v1/queues/orders.new").json()["paused"]

    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", level=1, name="Queues")).to_be_focused()

    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search or jump")
    page.keyboard.type("eu")  # at once, before the palette can be there
    found = palette.get_by_role("option", name="orders.eu")
    expect(found.locator("mark")).to_have_text("eu")
    expect(found.locator("use")).to_have_attribute("href", re.compile("#inbox$"))
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    expect(page.get_by_role("heading", level=1, name="Queues")).to_be_focused()

    page.keyboard.press("Control+k")
    for sought, group in (("alert_notify", "Settings"), ("admin", "Users")):
        palette.get_by_role("combobox").fill(sought)
        expect(palette.locator(f"[data-group='{group}']").get_by_text(sought, exact=True)).to_be_visible()
    kept = broker.request("POST", "/api/v1/queues/orders.eu/messages", b"x").json()["id"]
    palette.get_by_role("combobox").fill(kept)
    expect(palette.get_by_role("option", name=kept)).to_contain_text("orders.eu")
    page.keyboard.press("Escape")

    page.keyboard.press("Control+k")
    palette.get_by_role("combobox").fill("pause orders.n")
    expect(palette.get_by_role("option", name="Pause orders.new")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    question = page.get_by_role("dialog", name="Pause orders.new")
    question.get_by_label("Reason").fill("the shop is closed")
    question.get_by_role("button", name="Pause").click()
    toast = page.locator("#toasts .toast")
    expect(toast).to_contain_text("orders.new was paused.")
    assert paused() == "all"
    toast.get_by_role("button", name="Undo").click()
    expect(toast).to_have_count(0)
    page.wait_for_function(
        "fetch('/api/v1/queues/orders.new').then((reply) => reply.json()).then((it) => it.paused === 'none')"
    )

    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_contain_text("Go to Queues")
    page.keyboard.press("Escape")
    # Single-letter shortcuts can be turned off; those with Ctrl still work.
    page.evaluate("document.cookie = 'mom_keys=off; path=/'")
    page.keyboard.press("?")
    expect(keys).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(palette).to_be_visible()


def test_times_are_in_the_zone_chosen_in_the_footer(page: Page) -> None:
    page.get_by_role("button", name=re.compile("▾$")).and_(page.locator("[popovertarget=zones]")).click()
    page.get_by_label("Time zone").select_option("Europe/Berlin")
    wait_live(page)
    expect(page.locator("[popovertarget=zones]")).to_contain_text("GMT+1")
    page.goto("/console/audit/")
    expect(page.locator("main time").first).to_contain_text("GMT+1")
    assert str(page.locator("main time").first.get_attribute("datetime")).endswith(("Z", "+00:00"))
