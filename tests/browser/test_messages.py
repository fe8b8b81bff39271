"""Messages in the browser: publish, tail, search, explain, view bodies, bulk actions."""

import base64
import gzip
import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from mom_client import blocking
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def page(tab: Page) -> Page:
    """Each test begins with a page of its own, and not with the first page of the console."""
    return tab


def show(page: Page, queue: str, tab: str = "messages", more: str = "") -> None:
    page.goto(f"/console/queues/one?name={queue}&tab={tab}{more}")


def rows(page: Page) -> Locator:
    return page.locator("tr.message")


def send(
    broker: BrokerProcess, queue: str, *bodies: bytes, content_type: str = "text/plain", **headers: str
) -> None:
    for body in bodies:
        reply = broker.request(
            "POST", f"/api/v1/queues/{queue}/messages", body, content_type=content_type, **headers
        )
        assert reply.status == 201, reply.body


def bury(broker: BrokerProcess, queue: str, count: int, reasons: list[str]) -> None:
    """`count` messages of `queue` become dead letters, by turns for these reasons."""
    items = [{"body": {"number": number}, "headers": {"tenant": "acme"}} for number in range(count)]
    broker.request("POST", f"/api/v1/queues/{queue}/messages/batch", json_body=items)
    taken = broker.request("POST", f"/api/v1/queues/{queue}/receive", json_body={"max": count}).json()[
        "items"
    ]
    nack = [
        {"receipt": item["receipt"], "dead": True, "reason": reasons[at % len(reasons)]}
        for at, item in enumerate(taken)
    ]
    assert broker.request("POST", "/api/v1/leases/settle", json_body={"nack": nack}).status == 200


def depth(broker: BrokerProcess, queue: str) -> int:
    found: int = broker.request("GET", f"/api/v1/queues/{queue}").json()["depth"]
    return found


def test_a_published_message_appears_in_the_tail(page: Page, broker: BrokerProcess) -> None:
    send(broker, "published", b"before")
    show(page, "published", more="&tail=on")
    expect(page.locator("mom-message-tail")).to_contain_text("Waiting for messages")
    other = page.context.new_page()
    show(other, "published", "publish")
    other.get_by_role("textbox", name="Body").fill('{"id": 9007199254740993, "n": {{n}')
    complaint = other.locator(".hint[data-tone=warn]")
    expect(complaint).to_contain_text("not valid JSON")
    other.get_by_role("textbox", name="Body").fill('{"id": 9007199254740993, "n": {{n}}}')
    expect(complaint).to_have_count(0)
    other.get_by_label("Priority").fill("7")
    other.get_by_role("button", name="Add header").click()
    expect(other.get_by_label("Header name")).to_be_focused()
    other.get_by_label("Header name").fill("tenant")
    other.get_by_label("Header value").fill("a: b \\ c")
    other.get_by_text("The same as code").click()
    curl = other.locator(".snippet").filter(has_text="curl")
    expect(curl).to_contain_text("Mom-Header-tenant: a: b \\ c")
    other.get_by_label("Number of messages").fill("3")
    other.locator("form.publish").get_by_role("button", name="Publish").click()
    answer = other.locator("form.publish .notice")
    expect(answer).to_contain_text("3 messages are stored")
    expect(page.locator(".tail li")).to_have_count(3)
    expect(page.locator(".tail li").first).to_contain_text('"n":3')
    other.close()
    page.get_by_role("button", name="Stop tailing").click()
    rows(page).nth(1).get_by_role("button").click()
    detail = page.locator("mom-message-detail")
    expect(detail.locator(".json-key").first).to_have_text("id")
    expect(detail.locator(".json-number").first).to_have_text("9007199254740993")
    expect(detail.locator(".headers")).to_contain_text("a: b \\ c")


def test_a_message_is_found_by_content_and_has_a_permalink(page: Page, broker: BrokerProcess) -> None:
    send(broker, "found", *(b"number %d" % number for number in range(60)))
    send(broker, "found", b"the invoice of ACME", Mom_Header_tenant="acme")
    show(page, "found")
    expect(rows(page)).to_have_count(50)
    search = page.get_by_role("searchbox", name="Search messages")
    search.fill("invoice header.tenant=acme")
    search.press("Enter")
    expect(rows(page)).to_have_count(1)
    rows(page).get_by_role("button").click()
    address = page.url
    assert "q=invoice" in address
    assert "message=" in address
    search.fill("is:sleeping")
    search.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("ready, unsettled or delayed")
    search.fill("nothing like this")
    search.press("Enter")
    page.get_by_role("button", name="Clear the search").click()
    expect(rows(page)).to_have_count(50)
    page.get_by_role("link", name="Newer").click()
    expect(rows(page)).to_have_count(11)
    page.get_by_role("button", name="Newest").click()
    expect(rows(page).first).to_contain_text("the invoice of ACME")
    page.goto(address)
    expect(page.locator("mom-message-detail pre.body")).to_have_text("the invoice of ACME")

    # The last row of a page is in sight when its link is opened.
    show(page, "found")
    rows(page).last.get_by_role("button").click()
    expect(page).to_have_url(re.compile("message="))
    page.goto(page.url)
    expect(page.locator("mom-message-detail pre.body")).to_be_in_viewport()


def test_the_reason_why_a_message_waits_is_shown(page: Page, broker: BrokerProcess) -> None:
    send(broker, "waiting", b"one", b"two")
    show(page, "waiting")
    rows(page).nth(1).get_by_role("button").click()
    page.get_by_text("Why is this message here?").click()
    reasons = page.locator(".reasons")
    expect(reasons).to_contain_text("/queue/waiting has no consumers")
    expect(reasons).to_contain_text("1 message of /queue/waiting come before it")
    send(broker, "waiting", b"three")
    expect(page.locator("mom-message-browser")).to_contain_text("the queue has changed since then")
    page.get_by_role("button", name="Refresh").click()
    expect(rows(page)).to_have_count(3)


def test_400_dead_letters_are_retried_after_a_dry_run_and_undone(page: Page, broker: BrokerProcess) -> None:
    bury(broker, "orders", 400, ["schema v3", "schema v3", "schema v3", "timeout"])
    show(page, "orders.dead")
    expect(page.locator(".shares").nth(1)).to_contain_text("schema v3 300")
    page.get_by_role("button", name="timeout 100").click()
    expect(page.locator(".message-facts")).to_contain_text("100 of 400")
    page.get_by_role("button", name="timeout 100").click()
    page.locator(".bulk").get_by_role("button", name="Retry…").click()
    dialog = page.get_by_role("dialog", name="Retry all messages of orders.dead")
    expect(dialog).to_contain_text("400 messages")
    expect(dialog).to_contain_text("orders has no consumer")
    dialog.get_by_label("Message limit").fill("150")
    dialog.get_by_label("Reason").focus()
    # Title and button have the number of the plan, and samples stay within the dialog.
    limited = page.get_by_role("dialog", name="Retry 150 messages · orders.dead")
    expect(limited).to_contain_text("of 400 matching")
    expect(limited.get_by_role("button", name="Retry 150 messages")).to_be_enabled()
    limited.get_by_text("5 samples").click()
    expect(limited.locator(".samples li")).to_have_count(5)
    assert limited.evaluate("(it) => it.scrollWidth <= it.clientWidth"), "the samples widen the dialog"
    limited.get_by_label("Message limit").fill("")
    limited.get_by_label("Reason").focus()
    dialog.get_by_label("Reason").fill("the schema is repaired")
    expect(dialog).not_to_contain_text("that match")
    dialog.get_by_role("button", name="Retry 400 messages").click()
    toast = page.locator("mom-job-toast")
    expect(toast).to_contain_text("400 done")
    expect(page.locator("mom-message-browser")).to_contain_text("Empty now")
    assert (depth(broker, "orders"), depth(broker, "orders.dead")) == (400, 0)
    toast.get_by_role("button", name="Undo").click()
    expect(rows(page)).to_have_count(50)
    expect(page.locator("mom-job-toast").last).to_contain_text("400 done")
    assert (depth(broker, "orders"), depth(broker, "orders.dead")) == (0, 400)
    page.locator("mom-job-toast").last.get_by_role("link", name="Open job").click()
    expect(page.locator("mom-job-page")).to_contain_text("Move 400 messages back")
    page.get_by_role("navigation", name="Breadcrumbs").get_by_role("link", name="Jobs").click()
    expect(page.locator("mom-job-list tbody tr").nth(1)).to_contain_text("Retry 400 messages")


def test_selected_messages_are_moved_and_a_deletion_is_cancelled(page: Page, broker: BrokerProcess) -> None:
    send(broker, "chosen", b"one", b"two", b"three")
    show(page, "chosen")
    for number in (0, 2):
        rows(page).nth(number).get_by_role("checkbox").check()
    page.locator(".bulk").get_by_role("button", name="Move…").click()
    dialog = page.get_by_role("dialog", name="Move 2 messages · chosen")
    dialog.get_by_label("Target queue").fill("elsewhere")
    dialog.get_by_label("Reason").focus()
    expect(dialog).to_contain_text("elsewhere does not exist and will be created")
    dialog.get_by_role("button", name="Move 2 messages").click()
    expect(page.locator("mom-job-toast")).to_contain_text("2 done")
    expect(rows(page)).to_have_count(1)
    rows(page).get_by_role("button").click()
    page.locator(".message-acts").get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    page.locator(".toast").filter(has_text="will be deleted").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast").filter(has_text="Cancelled")).to_be_visible()
    assert (depth(broker, "chosen"), depth(broker, "elsewhere")) == (1, 2)


def test_a_dead_letter_is_edited_sent_again_and_replaced(
    page: Page, broker: BrokerProcess, complaints: list[str]
) -> None:
    bury(broker, "edited", 1, ["schema v3"])
    show(page, "edited.dead")
    rows(page).get_by_role("button").click()
    expect(page.locator(".path")).to_contain_text("dead-lettered: REJECTED, schema v3")
    page.get_by_role("link", name="Edit and retry…").click()
    expect(page.get_by_role("textbox", name="Body")).to_have_value('{"number": 0}')
    expect(page.get_by_label("Header value")).to_have_value("acme")
    page.get_by_role("textbox", name="Body").fill('{"number": 1}')
    page.locator("form.publish").get_by_role("button", name="Publish").click()
    expect(page.locator("form.publish .notice")).to_contain_text("/queue/edited has no consumers")
    assert (depth(broker, "edited"), depth(broker, "edited.dead")) == (1, 0)
    page.get_by_label("Destination", exact=True).fill("/queue/$reserved")
    page.locator("form.publish").get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alert")).to_contain_text("$")
    # The browser itself reports that reply.
    assert all("403" in complaint for complaint in complaints)
    complaints.clear()


def test_bodies_are_shown_by_detected_format_and_never_executed(page: Page, broker: BrokerProcess) -> None:
    send(broker, "bodies", b"<script>document.title = 'ran'</script>", content_type="text/html")
    send(broker, "bodies", bytes(range(32)), content_type="application/octet-stream")
    send(broker, "bodies", b'{ "spaced":\t1.50 }', content_type="application/json")
    send(broker, "bodies", b"<a><b>text</b><c/></a>", content_type="application/xml")
    send(broker, "bodies", gzip.compress(b'{"inside": true}'), content_type="application/json")
    send(broker, "bodies", b"long " * 60_000 + b"the end", content_type="text/plain")
    show(page, "bodies")
    body = page.locator("mom-body-view")

    def opened(number: int) -> Locator:
        rows(page).nth(number).get_by_role("button").click()
        return body.locator("pre.body").first

    def as_form(name: str) -> None:
        body.get_by_role("button", name=name, exact=True).click()

    text = opened(0)
    expect(text).to_contain_text("document.title = 'ran'")
    as_form("Hex")
    expect(text).to_contain_text("000000  3c 73 63 72 69 70 74 3e")
    assert page.title().startswith("bodies")
    expect(opened(1)).to_contain_text("000010  10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f")
    rows(page).nth(2).get_by_role("button").click()
    expect(body.locator(".json-key")).to_have_text("spaced")
    as_form("Raw")
    expect(body.locator("pre.body")).to_have_text('{ "spaced":\t1.50 }', use_inner_text=True)
    expect(opened(3)).to_have_text("<a>\n  <b>text</b>\n  <c/>\n</a>", use_inner_text=True)
    rows(page).nth(4).get_by_role("button").click()
    expect(body.locator(".notice")).to_contain_text("Decompressed for display (gzip")
    expect(body.locator(".json-key")).to_have_text("inside")
    opened(5)
    expect(body.locator(".notice")).to_contain_text("Only the beginning and the end of 293 KiB")
    expect(body.locator("pre.body").nth(1)).to_contain_text("the end")
    with page.expect_download() as download:
        body.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes().endswith(b"the end")


def test_a_queue_in_use_that_is_empty_just_now_shows_what_passes_and_no_first_steps(
    page: Page, broker: BrokerProcess
) -> None:
    send(broker, "passing", b"one")
    show(page, "passing")
    facts = page.locator(".message-facts")
    expect(facts).to_contain_text("1 shown of 1 message in the queue")
    height = facts.evaluate("(it) => it.offsetHeight")
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    with (
        blocking.Client(address, login=broker.user, passcode=broker.password) as client,
        client.subscribe("/queue/passing", ack="auto") as taken,
    ):
        assert next(taken).body == b"one"
        expect(facts).to_contain_text("the queue is empty now")
        assert facts.evaluate("(it) => it.offsetHeight") == height
        facts.get_by_role("button", name="Refresh").click()
        place = page.locator("mom-empty-queue")
        expect(place.get_by_role("heading", name="Empty now")).to_be_visible()
        expect(place).to_contain_text("Consumers take each message when it arrives")
        expect(place.locator(".snippet")).to_have_count(0)
        # What passes moves nothing on the page.
        send(broker, "passing", b"two", b"three")
        assert [next(taken).body, next(taken).body] == [b"two", b"three"]
        expect(page.locator(".verdict")).to_contain_text("come in")
        expect(place.get_by_role("heading", name="Empty now")).to_be_visible()
        expect(facts).to_have_text("")
        place.get_by_role("button", name="Tail").click()
        expect(page.locator("mom-message-tail")).to_contain_text("Waiting for messages")
        send(broker, "passing", b"four")
        expect(page.locator(".tail li")).to_contain_text("four")
    show(page, "passing")
    expect(page.locator("mom-empty-queue")).to_contain_text("4 messages were published to it so far")


def test_opening_an_unknown_queue_does_not_create_it(
    page: Page, broker: BrokerProcess, complaints: list[str]
) -> None:
    show(page, "never.made")
    expect(page.locator("mom-message-browser")).to_contain_text("The queue never.made does not exist yet")
    expect(page.locator("mom-empty-queue .snippet")).to_have_count(3)
    names = [each["name"] for each in broker.request("GET", "/api/v1/stats").json()["destinations"]]
    assert "/queue/never.made" not in names
    # Its first message makes it, and is shown.
    send(broker, "never.made", b"one")
    expect(rows(page)).to_have_count(1)
    # The browser itself reports the replies that say so.
    assert all("404" in complaint for complaint in complaints)
    complaints.clear()


def test_retained_messages_of_a_topic_are_shown(page: Page, broker: BrokerProcess) -> None:
    broker.request("PUT", "/api/v1/topics/news", json_body={"retention_s": 600})
    page.goto("/console/topics/one?name=news&tab=messages")
    expect(page.locator("mom-history-browser")).to_contain_text("No messages are retained")
    for number in range(3):
        broker.request("POST", "/api/v1/topics/news/messages", b"news %d" % number)
    page.get_by_role("button", name="Newest").click()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Last hour").click()
    expect(rows(page)).to_have_count(3)
    rows(page).first.get_by_role("button").click()
    expect(page.locator("mom-body-view")).to_contain_text("news 0")
    expect(page.get_by_role("button", name="Replay into a queue…")).to_be_visible()


def test_an_address_with_a_place_in_another_journal_shows_the_first_page_and_says_so(
    page: Page, broker: BrokerProcess, complaints: list[str]
) -> None:
    broker.request("PUT", "/api/v1/topics/kept", json_body={"retention_s": 600})
    for number in range(3):
        broker.request("POST", "/api/v1/topics/kept/messages", b"kept %d" % number)
    send(broker, "replaced", *(b"number %d" % number for number in range(51)))
    notice = page.locator(".notice").filter(has_text="a place that is not in this journal")

    def following(address: str) -> str:
        return str(broker.request("GET", f"/api/v1/{address}/messages?limit=1").json()["next"])

    own = following("topics/kept")
    for start, shown, is_foreign in ((own, 2, False), (own.replace("-", "0-"), 3, True)):
        page.goto(f"/console/topics/one?name=kept&tab=messages&from={start}")
        expect(rows(page)).to_have_count(shown)
        expect(notice).to_have_count(int(is_foreign))
    page.get_by_role("button", name="Last hour").click()
    expect(notice).to_have_count(0)
    expect(rows(page)).to_have_count(3)

    own = following("queues/replaced")
    tag, place = base64.urlsafe_b64decode(own + "==").decode().split(".", 1)
    foreign = base64.urlsafe_b64encode(f"{tag}0.{place}".encode()).decode().rstrip("=")
    for after, first, is_foreign in ((own, "number 1", False), (foreign, "number 0", True)):
        show(page, "replaced", more=f"&after={after}")
        expect(rows(page)).to_have_count(50)
        expect(rows(page).first).to_contain_text(first)
        expect(notice).to_have_count(int(is_foreign))
    page.get_by_role("link", name="Newer").click()
    expect(rows(page)).to_have_count(1)
    expect(notice).to_have_count(0)
    # The browser itself reports the reply that refuses the place.
    assert all("400" in complaint for complaint in complaints)
    complaints.clear()


def test_numbers_in_bodies_are_shown_unchanged(page: Page, broker: BrokerProcess) -> None:
    body = b'{"price": 12.00, "big": 1e3, "exact": 9007199254740993, "n": 1}'
    send(broker, "numbers", body, content_type="application/json")
    show(page, "numbers")
    preview = rows(page).locator(".col-preview")
    for number in ("12.00", "1e3", "9007199254740993"):
        expect(preview).to_contain_text(number)
    page.locator("button.opens").click()
    expect(page.locator("mom-body-view .json-number")).to_have_text(["12.00", "1e3", "9007199254740993", "1"])


def test_each_heading_of_the_messages_stands_over_its_column(page: Page, broker: BrokerProcess) -> None:
    bury(broker, "columns", 1, ["broken"])
    for width in (1024, 1180, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        show(page, "columns.dead")
        expect(rows(page)).to_have_count(1)
        edges = """cells => cells.filter((cell) => cell.offsetParent).map((cell) =>
            Math.round(cell.getBoundingClientRect().left))"""
        headings = page.locator("table.messages thead th").evaluate_all(edges)
        cells = rows(page).locator("> *").evaluate_all(edges)
        assert headings == cells, width
    # What is looked for, its type and its body, is as strong as its position.
    weights = (
        rows(page)
        .locator("td, th, button.opens")
        .evaluate_all("(cells) => [...new Set(cells.map((cell) => getComputedStyle(cell).fontWeight))]")
    )
    assert weights == ["400"]


def test_messages_are_selected_and_opened_by_shortcuts(page: Page, broker: BrokerProcess) -> None:
    send(broker, "keyed", b"first", b"second", b"third")
    show(page, "keyed")
    expect(rows(page)).to_have_count(3)
    openers = page.locator("button.opens")
    page.keyboard.press("j")
    expect(openers.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(openers.nth(1)).to_be_focused()
    page.keyboard.press("x")
    expect(rows(page).nth(1).get_by_role("checkbox")).to_be_checked()
    rows(page).nth(1).get_by_role("checkbox").focus()
    page.keyboard.press("k")
    expect(openers.nth(0)).to_be_focused()
    # A key that is held down goes on.
    page.keyboard.down("j")
    page.keyboard.down("j")
    page.keyboard.up("j")
    expect(openers.nth(2)).to_be_focused()
    page.get_by_role("searchbox", name="Search messages").focus()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_messages_of_another_broker_are_shown_with_its_name_and_left_to_it(
    page: Page, broker: BrokerProcess
) -> None:
    send(broker, "shared", b"mine", b"of another")

    def as_in_a_cluster(route: Route) -> None:
        reply = route.fetch()
        found = reply.json()
        for item, name in zip(found["items"], ("b1", "b2"), strict=True):
            item["broker"] = name
        route.fulfill(response=reply, json=found | {"broker": "b1", "not_shown": ["b3"]})

    page.route(re.compile(r"/api/v1/queues/.*messages\?.*limit="), as_in_a_cluster)
    show(page, "shared")
    mine, other = rows(page).nth(0), rows(page).nth(1)
    expect(other).to_contain_text("at b2")
    expect(other.get_by_role("checkbox")).to_be_disabled()
    expect(other.get_by_role("button")).to_have_count(1)  # which opens it
    expect(mine).not_to_contain_text("at b1")
    expect(page.get_by_text("Messages of b3 are not shown")).to_be_visible()
    page.get_by_label("Select all on this page").check()
    expect(page.locator("tr.message[data-selected=true]")).to_have_count(1)
    mine.get_by_role("button").click()
    expect(page.locator("mom-message-detail")).to_be_visible()
