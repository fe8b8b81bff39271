"""The list of destinations: live numbers, filter, order, keys, and the address that says it all."""

import pytest
from playwright.sync_api import Browser, Locator, Page, StorageState, expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.support.broker_process import BrokerProcess, StartBroker


def row(page: Page, name: str) -> Locator:
    return page.locator("tbody tr", has=page.locator(f'a[data-name="{name}"]'))


def depth(page: Page, name: str) -> Locator:
    return row(page, name).locator(".col-depth")


def send(broker: BrokerProcess, queue: str, body: bytes = b"hello", content_type: str = "text/plain") -> None:
    reply = broker.request("POST", f"/api/v1/queues/{queue}/messages", body, content_type=content_type)
    assert reply.status == 201, reply.body


@pytest.fixture(scope="module", autouse=True)
def destinations(broker: BrokerProcess) -> None:
    for queue in ("list.one", "list.two", "list.two", "other"):
        send(broker, queue)


def test_an_empty_broker_says_what_to_do_and_the_first_message_makes_a_row(
    start_broker: StartBroker, chromium: Browser, open_page: OpenPage
) -> None:
    broker = start_broker()
    page = open_page(broker, "/console/", sign_in(chromium, broker))
    expect(page.get_by_role("heading", name="No destinations yet")).to_be_visible()
    expect(page.locator(".first-run .snippet")).to_have_count(3)
    expect(page.locator(".first-run pre").first).to_contain_text(f"{broker.url}/api/v1/queues/hello/messages")
    page.get_by_role("button", name="Publish a first message").click()
    page.get_by_label("Body").fill('{"hello": "world"}')
    page.locator("form.publish").get_by_role("button", name="Publish").click()
    expect(page.locator(".notice")).to_contain_text("Confirmed")
    expect(depth(page, "/queue/hello")).to_have_text("1")


def test_numbers_change_by_themselves_when_messages_are_sent(page: Page, broker: BrokerProcess) -> None:
    send(broker, "live")
    expect(depth(page, "/queue/live")).to_have_text("1")
    expect(row(page, "/queue/live")).to_contain_text("no consumer")
    send(broker, "live")
    expect(depth(page, "/queue/live")).to_have_text("2")


def test_the_filter_takes_words_and_patterns(page: Page) -> None:
    names = page.locator("tbody th")
    page.get_by_role("searchbox").fill("list")
    expect(names).to_have_text(["/queue/list.one", "/queue/list.two"])
    page.get_by_role("searchbox").fill("*.two")
    expect(names).to_have_text(["/queue/list.two"])
    page.get_by_role("searchbox").fill("nothing like this")
    page.get_by_role("button", name="Clear filter").click()
    expect(row(page, "/queue/other")).to_be_visible()


def test_the_address_is_the_state(page: Page) -> None:
    page.get_by_role("searchbox").fill("list")
    page.get_by_role("columnheader", name="depth", exact=True).get_by_role("button").click()
    names = page.locator("tbody th")
    expect(names).to_have_text(["/queue/list.two", "/queue/list.one"])
    row(page, "/queue/list.two").get_by_role("link").click()
    expect(page.locator("#panel-title")).to_have_text("/queue/list.two")
    page.reload()
    wait_live(page)
    expect(page.get_by_role("searchbox")).to_have_value("list")
    expect(names).to_have_text(["/queue/list.two", "/queue/list.one"])
    expect(page.locator("#panel-title")).to_have_text("/queue/list.two")
    page.go_back()
    expect(page.locator(".panel")).to_have_count(0)


def test_rows_keep_their_place_until_they_are_sorted_again(page: Page, broker: BrokerProcess) -> None:
    page.get_by_role("searchbox").fill("list")
    page.get_by_role("columnheader", name="depth", exact=True).get_by_role("button").click()
    names = page.locator("tbody th")
    before = names.all_inner_texts()
    last = before[-1].removeprefix("/queue/")
    for _ in range(5):
        send(broker, last)
    expect(page.get_by_role("button", name="Re-sort")).to_be_visible()
    assert names.all_inner_texts() == before
    page.get_by_role("button", name="Re-sort").click()
    expect(names).to_have_text(before[::-1])


def test_the_page_can_be_used_by_keys_alone(page: Page) -> None:
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("list.jkpt?")
    expect(page.get_by_role("searchbox")).to_have_value("list.jkpt?")
    page.get_by_role("searchbox").fill("list")
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator('a[data-name="/queue/list.two"]')).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_have_text("/queue/list.one")
    expect(page.locator("#panel-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator('a[data-name="/queue/list.one"]')).to_be_focused()
    page.keyboard.press("p")
    expect(page.locator("#panel-title")).to_have_text("Publish a message")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_the_theme_is_kept(page: Page) -> None:
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_two_tabs_see_the_same(
    open_page: OpenPage, page: Page, broker: BrokerProcess, session: StorageState
) -> None:
    other = open_page(broker, "/console/", session)
    send(broker, "shared")
    expect(depth(page, "/queue/shared")).to_have_text("1")
    expect(depth(other, "/queue/shared")).to_have_text("1")
