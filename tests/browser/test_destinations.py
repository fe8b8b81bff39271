"""The lists of queues and topics: live values, filter, order, shortcuts, bulk actions, addresses."""

import re

import pytest
from playwright.sync_api import Locator, Page, StorageState, expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.support.broker_process import BrokerProcess, StartBroker


def row(page: Page, name: str) -> Locator:
    return page.locator("tbody tr", has=page.locator(f'a[data-name="/queue/{name}"]'))


def depth(page: Page, name: str) -> Locator:
    return row(page, name).locator(".col-depth")


def send(broker: BrokerProcess, queue: str, count: int = 1) -> None:
    for _ in range(count):
        path = f"/api/v1/queues/{queue}/messages"
        assert broker.request("POST", path, b"hello", content_type="text/plain").status == 201


@pytest.fixture(scope="module", autouse=True)
def destinations(broker: BrokerProcess) -> None:
    for queue, count in (("list.one", 1), ("list.two", 2), ("other", 1), ("full", 1)):
        send(broker, queue, count)


@pytest.fixture
def queues(open_page: OpenPage, broker: BrokerProcess, session: StorageState) -> Page:
    page = open_page(broker, "/console/queues/", session)
    wait_live(page)
    expect(row(page, "other")).to_be_visible()
    return page


def test_an_empty_list_has_hints_and_the_first_message_adds_a_row(
    start_broker: StartBroker, open_page: OpenPage
) -> None:
    broker = start_broker()
    page = open_page(broker, "/console/queues/", sign_in(broker))
    wait_live(page)
    expect(page.get_by_role("heading", name="No queues yet")).to_be_visible()
    expect(page.locator(".empty pre")).to_have_count(3)
    expect(page.locator(".empty pre").first).to_contain_text(f"{broker.url}/api/v1/queues/hello/messages")
    send(broker, "hello")
    expect(depth(page, "hello")).to_have_text("1")
    expect(row(page, "hello")).to_contain_text("no consumer")
    send(broker, "hello")
    expect(depth(page, "hello")).to_have_text("2")
    page.get_by_role("button", name="New queue").click()
    page.get_by_label("Name", exact=True).fill("made/by hand")
    page.get_by_label("Maximum number of messages").fill("4")
    page.get_by_role("button", name="Create").click()
    expect(row(page, "made/by hand").locator(".col-limit")).to_contain_text("0 %")


def test_filter_order_and_columns_are_in_the_address(queues: Page) -> None:
    names = queues.locator("tbody th")
    search = queues.get_by_role("searchbox", name="Filter by name")
    search.fill("LIST")
    expect(names).to_have_text(["list.one", "list.two"])
    queues.get_by_role("columnheader", name="depth", exact=True).get_by_role("button").click()
    expect(names).to_have_text(["list.two", "list.one"])
    queues.get_by_role("button", name="Columns").click()
    queues.get_by_role("checkbox", name="published").check()
    expect(row(queues, "list.two").locator(".col-published")).to_have_text("2")
    queues.keyboard.press("Escape")
    queues.reload()
    expect(names).to_have_text(["list.two", "list.one"])
    expect(search).to_have_value("LIST")
    expect(row(queues, "list.two").locator(".col-published")).to_have_text("2")
    search.fill("*.two")
    expect(names).to_have_text(["list.two"])
    search.fill("nothing like this")
    expect(queues.locator(".empty")).to_contain_text("in total")
    queues.get_by_role("button", name="Clear filter").click()
    expect(row(queues, "other")).to_be_visible()


def test_a_long_name_takes_one_line_and_shows_its_last_part(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    name = "zone.of-many-parts." * 6 + "dead"
    send(broker, name)
    page = open_page(broker, "/console/queues/", session)
    wait_live(page)
    link, short = row(page, name).locator("a.named"), row(page, "other").locator("a.named")
    lines = "(it) => it.getClientRects()[0].height"
    assert link.evaluate(lines) == short.evaluate(lines)
    assert link.get_attribute("title") == name
    seen = link.evaluate("""(link) => [...link.children].map(
      (part) => [part.textContent, part.scrollWidth > part.clientWidth])""")
    assert seen == [[name.removesuffix("dead"), True], ["dead", False]]


def test_rows_keep_their_place_until_they_are_sorted_again(queues: Page, broker: BrokerProcess) -> None:
    queues.get_by_role("searchbox", name="Filter by name").fill("list")
    queues.get_by_role("columnheader", name="depth", exact=True).get_by_role("button").click()
    names = queues.locator("tbody th")
    expect(names).to_have_text(["list.two", "list.one"])
    send(broker, "list.one", 5)
    expect(depth(queues, "list.one")).to_have_text("6")
    expect(names).to_have_text(["list.two", "list.one"])
    queues.get_by_role("button", name="Re-sort").click()
    expect(names).to_have_text(["list.one", "list.two"])


def test_many_queues_are_paused_by_shortcuts_and_resumed_by_undo(queues: Page, broker: BrokerProcess) -> None:
    queues.keyboard.press("/")
    queues.keyboard.type("list")
    expect(queues).to_have_url(re.compile(r"filter=list$"))
    expect(queues.locator("tbody tr")).to_have_count(2)
    queues.locator("h1").click()
    for name in ("list.one", "list.two"):
        queues.keyboard.press("j")
        expect(queues.locator(f'a[data-name="/queue/{name}"]')).to_be_focused()
        queues.keyboard.press("x")
        expect(row(queues, name).get_by_role("checkbox")).to_be_checked()
    bar = queues.get_by_role("group", name="Selection")
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Pause").click()
    dialog = queues.get_by_role("dialog", name="Pause 2 queues")
    expect(dialog).to_contain_text("2 would change.")
    dialog.get_by_label("Reason").fill("repair")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(row(queues, "list.one")).to_contain_text("paused")
    assert broker.request("GET", "/api/v1/queues/list.two").json()["paused"] == "all"
    queues.locator(".toast", has_text="2 paused").get_by_role("button", name="Undo").click()
    expect(row(queues, "list.one")).to_contain_text("no consumer")
    expect(row(queues, "list.two")).to_contain_text("no consumer")


def test_a_purge_from_the_menu_of_a_row_can_be_cancelled(queues: Page, broker: BrokerProcess) -> None:
    send(broker, "full", 2)
    expect(depth(queues, "full")).to_have_text("3")
    queues.locator('a[data-name="/queue/full"]').focus()
    queues.keyboard.press(".")
    queues.get_by_role("button", name="Purge…").click()
    dialog = queues.get_by_role("dialog", name="Purge full")
    expect(dialog).to_contain_text("3 messages")
    dialog.get_by_role("button", name="Purge", exact=True).click()
    toast = queues.locator(".toast", has_text="3 messages are purged in ten seconds")
    toast.get_by_role("button", name="Undo").click()
    expect(toast).to_have_count(0)
    assert broker.request("GET", "/api/v1/queues/full").json()["depth"] == 3
    queues.keyboard.press("j")
    queues.keyboard.press("Enter")
    expect(queues.get_by_role("heading", level=1)).to_contain_text("full")
