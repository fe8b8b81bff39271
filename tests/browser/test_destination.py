"""The page of a queue: change a limit, use example code, pause it, close a consumer."""

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from mom_client import blocking
from tests.browser.conftest import WAIT_MS
from tests.browser.looks import assert_no_violations
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient

#: of a broker without a configured name
NAME = "mom"


def send(broker: BrokerProcess, queue: str, body: bytes = b"hello") -> None:
    reply = broker.request("POST", f"/api/v1/queues/{queue}/messages", body, content_type="text/plain")
    assert reply.status == 201, reply.body


@pytest.fixture
def page(tab: Page) -> Page:
    """Each test begins with a page of its own, and not with the first page of the console."""
    return tab


@pytest.fixture
def consumer(broker: BrokerProcess) -> Iterator[blocking.Client]:
    """A client that takes what comes to the queue `watched` and keeps it."""
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    with (
        blocking.Client(address, login=broker.user, passcode=broker.password, reconnect=False) as client,
        client.subscribe("/queue/watched"),
    ):
        yield client


def test_a_limit_is_previewed_saved_and_reverted(page: Page, broker: BrokerProcess) -> None:
    send(broker, "limited")
    page.goto("/console/queues/one?name=limited")
    page.get_by_role("link", name="Settings", exact=True).last.click()
    page.get_by_label("Most messages", exact=True).fill("5")
    page.get_by_role("button", name="Preview changes").click()
    expect(page.get_by_role("status", name="Impact")).to_contain_text("Most messages")
    expect(page.locator(".preview ins")).to_have_text("5")
    page.get_by_label("Reason").fill("the disk is small")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("Configuration of limited was created")
    expect(page.get_by_role("meter", name="1 of 5 used")).to_be_visible()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("was reverted")
    holds = broker.request("GET", "/api/v1/queues/limited").json()["settings"]["max_messages"]
    assert holds == {"value": 0, "source": "default"}


def test_example_code_works_with_a_token_created_on_the_page(page: Page, broker: BrokerProcess) -> None:
    assert broker.request("PUT", "/api/v1/queues/used", json_body={}).status == 201
    page.goto("/console/queues/one?name=used&tab=connect")
    page.get_by_role("button", name="Create a token…").click()
    page.get_by_role("dialog").get_by_role("button", name="Create token").click()
    secret = page.locator("code.secret").inner_text()
    produce, consume = page.locator("mom-destination-code pre").all_inner_texts()
    assert secret in produce and secret in consume
    for code in (produce, consume):
        ran = subprocess.run(["bash", "-euc", code], capture_output=True, text=True, timeout=patient(30))
        assert ran.returncode == 0, ran.stderr
    assert '"body":"Hello"' in ran.stdout, "it was sent, and received"
    elsewhere = broker.request(
        "POST", "/api/v1/queues/other/messages", b"x", authorization=f"Bearer {secret}"
    )
    assert elsewhere.status == 403, "it is good for this queue alone"
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Confirmed after")).to_be_visible()
    page.get_by_role("button", name="Receive a message").click()
    expect(page.locator(".arrived li")).to_contain_text("Hello")


def test_a_consumer_is_paused_and_closed_with_a_reason(
    page: Page, broker: BrokerProcess, consumer: blocking.Client
) -> None:
    page.goto("/console/queues/one?name=watched&tab=consumers")
    row = page.locator(".consumers tbody tr")
    expect(row).to_contain_text("STOMP 1.2")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_label("What to pause").select_option("consumers")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("mom-destination-head .pill")).to_contain_text("paused: consumers")
    send(broker, "watched")
    expect(page.locator(".standing-facts")).to_contain_text("1 ready")
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator(".standing-facts")).to_contain_text("1 unsettled")
    row.get_by_role("button", name="Close").click()
    page.get_by_role("dialog").get_by_label("Reason shown to the client").fill("please update")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_text("This queue has no consumers")).to_be_visible()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Purge…").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 message would be removed now.")
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    expect(page.locator(".standing-facts")).to_contain_text("0 ready")


def test_a_consumer_is_named_by_its_client_before_its_user(page: Page, broker: BrokerProcess) -> None:
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    named = {"client-id": "order-worker-1"}
    with (
        blocking.Client(address, login=broker.user, passcode=broker.password, headers=named) as client,
        client.subscribe("/topic/named.>"),
    ):
        page.goto("/console/topics/one?name=named.eu&tab=subscriptions")
        head = page.locator(".consumers tbody th")
        expect(head.get_by_role("link")).to_have_text("order-worker-1")
        expect(head.locator(".about")).to_contain_text(broker.user)


def test_the_history_is_shown_as_charts_and_as_tables(page: Page, broker: BrokerProcess) -> None:
    send(broker, "drawn")
    page.goto("/console/queues/one?name=drawn&tab=history")
    chart = page.locator("mom-chart", has=page.get_by_role("heading", name="Messages"))
    # One value, of a queue that is this young, is a dot.
    expect(chart.locator("svg circle, svg .area[d^=M]").first).to_be_visible()
    expect(chart.get_by_role("img")).to_have_accessible_name(re.compile("ready: 1 at the end"))
    # Under the cursor are the time and the values; labels of the axes are no larger than those of the lines.
    box = chart.get_by_role("img").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60)
    tip = chart.locator(".chart-tip")
    expect(tip.locator("b").first).to_have_text(re.compile(r"^\d\d:\d\d(:\d\d)?$"))
    expect(tip).to_contain_text("ready")
    size = "(it) => parseFloat(getComputedStyle(it).fontSize)"
    label = chart.locator("svg text").first.evaluate(size)
    assert label <= chart.locator(".chart-lines").evaluate(size)
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)
    chart.get_by_role("button", name="View as table").click()
    expect(chart.get_by_role("row").nth(1)).to_contain_text("1")
    page.get_by_role("button", name="3h").click()
    page.wait_for_url("**range=3h**", timeout=WAIT_MS)


def test_the_page_of_a_pattern_has_its_style_when_it_is_opened_directly(page: Page) -> None:
    page.goto("/console/queues/one?name=orders.%3E")
    expect(page.get_by_role("heading", level=1, name="orders.>")).to_be_visible()
    sheets = page.evaluate("[...document.styleSheets].map((sheet) => sheet.href)")
    assert any("/destination-" in sheet for sheet in sheets), sheets


def statistics(broker: BrokerProcess, destination: str, begin: datetime, counts: list[int]) -> None:
    """Store minutes from `begin` on as the pipeline does; the last is the end of what was computed."""
    rows = [
        {
            "broker": NAME,
            "destination": destination,
            "minute": (begin + timedelta(minutes=number)).isoformat(),
            "enqueued": count,
            "delivered": count,
            "redelivered": 1,
            "queue_time_us_p50": 20_000,
            "queue_time_us_p95": 400_000,
            "queue_time_us_p99": 9_000_000,
        }
        for number, count in enumerate(counts)
    ]
    end = begin + timedelta(minutes=len(counts))
    computed = {"broker": NAME, "begin": begin.isoformat(), "end": end.isoformat()}
    body = {"rows": rows, "computed": computed}
    stored = broker.request("POST", "/api/v1/pipeline/statistics", json_body=body)
    assert stored.status == 204, stored.body


def test_the_history_of_days_is_what_the_pipeline_has_stored_with_its_gaps(
    page: Page, broker: BrokerProcess
) -> None:
    send(broker, "stored")
    page.goto("/console/queues/one?name=stored&tab=history")
    expect(page.locator("mom-chart").first).to_be_visible()
    expect(page.get_by_role("button", name="7d")).to_be_hidden()
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    statistics(broker, "/queue/stored", hour - timedelta(days=3), [40] * 60)
    statistics(broker, "/queue/stored", hour - timedelta(hours=30), [10] * 30)
    page.reload()
    page.get_by_role("button", name="7d").click()
    expect(page.get_by_text("% of this time is known; gaps were not computed")).to_be_visible()
    expect(page.get_by_role("button", name="30d")).to_be_hidden()
    rates = page.locator("mom-chart", has=page.get_by_role("heading", name="Message rates"))
    expect(rates.get_by_role("img")).to_have_accessible_name(
        re.compile(r"in: 600/h at the end, 600/h to 2,400/h.*redelivered: 60/h at the end")
    )
    rates.get_by_role("button", name="View as table").click()
    values = rates.locator("tbody tr td:first-of-type").all_inner_texts()
    assert [value for value in values if value.endswith("/h")] == ["600/h", "2,400/h"], values
    times = page.locator("mom-chart", has=page.get_by_role("heading", name="Time in the queue"))
    expect(times.get_by_role("img")).to_have_accessible_name(
        re.compile(r"p50: 20 ms at the end.*p95: 400 ms at the end.*p99: 9.0 s at the end")
    )
    assert_no_violations(page)


def test_what_is_stored_completes_the_day_of_a_young_node(page: Page, broker: BrokerProcess) -> None:
    send(broker, "young")
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    statistics(broker, "/queue/young", minute - timedelta(hours=10), [90] * 30)
    page.goto("/console/queues/one?name=young&tab=history&range=24h")
    expect(page.get_by_text("Rates of before that are computed by the data pipeline")).to_be_visible()
    rates = page.locator("mom-chart", has=page.get_by_role("heading", name="Message rates"))
    expect(rates.get_by_role("img")).to_have_accessible_name(
        re.compile(r"in: (0(\.\d)?|1\.5)/s at the end, .* to 1\.5/s")
    )
    times = page.locator("mom-chart", has=page.get_by_role("heading", name="Time in the queue"))
    expect(times.get_by_role("img")).to_have_accessible_name(re.compile("p50: 20 ms"))


def test_what_is_stored_of_a_deleted_queue_is_shown(
    page: Page, broker: BrokerProcess, complaints: list[str]
) -> None:
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    statistics(broker, "/queue/gone", day - timedelta(days=2), [3] * 5)
    # A later hour that is known, of another queue: the deleted one had nothing then.
    statistics(broker, "/queue/kept", day - timedelta(days=1), [3] * 5)
    page.goto("/console/queues/one?name=gone&tab=history&range=7d")
    rates = page.locator("mom-chart", has=page.get_by_role("heading", name="Message rates"))
    expect(rates.get_by_role("img")).to_have_accessible_name(re.compile("in: .* 0/h to 180/h. out"))
    assert all("404" in complaint for complaint in complaints)
    complaints.clear()
