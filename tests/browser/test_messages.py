"""Publishing a message and looking at messages."""

from playwright.sync_api import Locator, Page, expect

from tests.support.broker_process import BrokerProcess


def show(page: Page, destination: str, tab: str) -> None:
    page.goto(f"/console/?show={destination}&tab={tab}")
    expect(page.locator("#panel-title")).to_have_text(destination)


def publish(page: Page, body: str = "", destination: str | None = None) -> Locator:
    """Sends the form as it stands but for these; the answer."""
    if destination is not None:
        page.get_by_label("Destination", exact=True).fill(destination)
    page.get_by_label("Body").fill(body)
    page.locator("form.publish").get_by_role("button", name="Publish").click()
    return page.locator("form.publish .notice")


def open_first(page: Page) -> Locator:
    page.locator("button.message").first.click()
    return page.locator(".message-details")


def test_a_published_message_is_confirmed_and_can_be_browsed(page: Page) -> None:
    show(page, "/queue/published", "publish")
    page.get_by_label("Priority").fill("7")
    page.get_by_role("button", name="Add header").click()
    expect(page.get_by_label("Header name")).to_be_focused()
    page.get_by_label("Header name").fill("tenant")
    page.get_by_label("Header value").fill("a: b \\ c")
    answer = publish(page, '{"id": 9007199254740993, "paid": true}')
    expect(answer).to_contain_text("Confirmed")
    answer.get_by_role("link", name="See the messages").click()
    message = page.locator("button.message")
    expect(message).to_contain_text("priority 7")
    expect(message).to_contain_text("tenant=a: b \\ c")
    details = open_first(page)
    expect(details.locator(".json-key").first).to_have_text("id")
    expect(details.locator(".json-number")).to_have_text("9007199254740993")
    expect(details.locator(".pairs")).to_contain_text("application/json")


def test_a_message_is_the_template_of_another(page: Page, broker: BrokerProcess) -> None:
    broker.request(
        "POST",
        "/api/v1/queues/template/messages",
        b"<order/>",
        content_type="application/xml",
        Mom_Header_tenant="acme",
    )
    show(page, "/queue/template", "messages")
    open_first(page).get_by_role("button", name="Use as template").click()
    expect(page.get_by_label("Body")).to_have_value("<order/>")
    expect(page.get_by_label("Content type")).to_have_value("application/xml")
    expect(page.get_by_label("Header value")).to_have_value("acme")


def test_bodies_are_shown_as_what_they_are_and_never_run(page: Page, broker: BrokerProcess) -> None:
    path = "/api/v1/queues/bodies/messages"
    broker.request("POST", path, b"<script>document.title = 'ran'</script>", content_type="text/html")
    broker.request("POST", path, bytes(range(32)), content_type="application/octet-stream")
    show(page, "/queue/bodies", "messages")
    text = open_first(page)
    expect(text.locator("pre.body")).to_have_text("<script>document.title = 'ran'</script>")
    text.get_by_role("button", name="Hex").click()
    expect(text.locator("pre.body")).to_contain_text("000000  3c 73 63 72 69 70 74 3e")
    assert page.title() == "Destinations · mom"
    page.locator("button.message").nth(1).click()
    binary = page.locator(".message-details").nth(1)
    expect(binary.locator("pre.body")).to_contain_text(
        "000010  10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f"
    )


def test_raw_and_hex_are_the_bytes_that_were_sent(page: Page, broker: BrokerProcess) -> None:
    path = "/api/v1/queues/exact/messages"
    broker.request("POST", path, b'{ "spaced":\t1.50 }', content_type="application/json")
    broker.request("POST", path, b"long " * 40_000 + b"the end", content_type="text/plain")
    show(page, "/queue/exact", "messages")
    spaced = open_first(page)
    expect(spaced.locator(".json-key")).to_have_text("spaced")
    spaced.get_by_role("button", name="Raw").click()
    expect(spaced.locator("pre.body")).to_have_text('{ "spaced":\t1.50 }', use_inner_text=True)
    page.locator("button.message").nth(1).click()
    long = page.locator(".message-details").nth(1)
    expect(long.locator(".notice")).to_contain_text("Only the first part of 195 KiB")
    long.get_by_role("button", name="Show all of it").click()
    expect(long.locator("pre.body")).to_contain_text("the end")
    with page.expect_download() as download:
        long.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes().endswith(b"the end")


def test_browsing_goes_on_page_by_page_and_notices_that_the_queue_changed(
    page: Page, broker: BrokerProcess
) -> None:
    path = "/api/v1/queues/pages/messages"
    for number in range(60):
        broker.request("POST", path, b"number %d" % number, content_type="text/plain")
    show(page, "/queue/pages", "messages")
    messages = page.locator("button.message")
    expect(messages).to_have_count(50)
    page.get_by_role("button", name="Newer").click()
    expect(messages).to_have_count(60)
    expect(messages.last).to_contain_text("number 59")
    broker.request("POST", path, b"one more", content_type="text/plain")
    expect(page.locator("mom-message-browser")).to_contain_text("the queue has changed since")
    page.get_by_role("button", name="Refresh").click()
    expect(messages).to_have_count(50)


def test_looking_at_a_queue_that_does_not_exist_creates_nothing(
    page: Page, broker: BrokerProcess, complaints: list[str]
) -> None:
    show(page, "/queue/never.made", "messages")
    expect(page.locator(".panel")).to_contain_text("Does not exist yet")
    expect(page.locator(".panel")).to_contain_text("No messages in this queue now")
    names = [each["name"] for each in broker.request("GET", "/api/v1/stats").json()["destinations"]]
    assert "/queue/never.made" not in names
    # The browser itself reports the reply that says so.
    assert all("404" in complaint for complaint in complaints)
    complaints.clear()


def test_a_refusal_is_shown_in_the_brokers_words_and_the_page_stays_live(page: Page) -> None:
    show(page, "/queue/refused", "publish")
    answer = publish(page, "x", destination="/queue/$reserved")
    expect(answer).to_have_attribute("data-tone", "bad")
    expect(answer).to_contain_text("$")
    expect(publish(page, "x", destination="/queue/accepted")).to_contain_text("Confirmed")
    expect(page.locator("mom-live-pill")).to_contain_text("live")


def test_a_body_that_is_no_json_is_pointed_out_and_sent_all_the_same(page: Page) -> None:
    show(page, "/queue/hint", "publish")
    answer = publish(page, '{"id": ')
    expect(page.locator(".hint")).to_contain_text("not valid JSON")
    expect(answer).to_contain_text("Confirmed")


def test_a_topic_has_no_messages_to_browse_but_code_to_use_it(page: Page, broker: BrokerProcess) -> None:
    page.goto("/console/?show=/topic/news&tab=use")
    tabs = page.get_by_role("navigation", name="Views of this destination").get_by_role("link")
    expect(tabs).to_have_text(["Publish", "Use it"])
    snippet = page.locator(".snippet").filter(has_text="stomp.py")
    expect(snippet).to_contain_text('"/topic/news"')
    expect(snippet).to_contain_text(f'[("127.0.0.1", {broker.stomp_port})]')
