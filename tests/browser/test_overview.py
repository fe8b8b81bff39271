"""The overview, filled with more than it shows at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import wait_live
from tests.browser.looks import PHONE
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll

#: longer than a node of the topology
BRIDGE = "warehouse-north-west"
MANY = 12_000


@pytest.fixture(scope="module", autouse=True)
def forwarding(broker: BrokerProcess) -> Iterator[None]:
    """A bridge that works, so that the broker forwards to itself, and one that does not, with a backlog."""
    to_itself = {"hostname": broker.host, "port": broker.stomp_port, "user": broker.user}
    broker.request("PUT", "/api/v1/bridges/west", json_body={**to_itself, "password": broker.password})
    broker.request("PUT", f"/api/v1/bridges/{BRIDGE}", json_body={"hostname": broker.host, "port": 1})
    fill(broker, "storeAndForward:west/queue/orders", 1)
    fill(broker, f"storeAndForward:{BRIDGE}/queue/orders", MANY)
    at_once = {"condition": "bridge-stalled", "threshold": 1, "for_s": 0}
    broker.request("PUT", "/api/v1/alerts/rules/stalled", json_body=at_once, if_none_match="*")
    status = f"/api/v1/bridges/{BRIDGE}/status"
    poll(lambda: broker.request("GET", status).json()["health"] == "failing")
    yield
    broker.request("DELETE", "/api/v1/alerts/rules/stalled", if_match="*")
    for name in ("west", BRIDGE):
        broker.request("DELETE", f"/api/v1/bridges/{name}", if_match="*")


def fill(broker: BrokerProcess, queue: str, number: int) -> None:
    for begin in range(0, number, 1_000):
        items = [{"body": 1}] * min(1_000, number - begin)
        made = broker.request("POST", f"/api/v1/queues/{queue}/messages/batch", json_body=items)
        assert made.status == 200, made.body


#: texts of nodes that are beyond their boxes
_OVER = """(drawing) => [...drawing.querySelectorAll(".vertex")].flatMap((vertex) => {
  const box = vertex.querySelector("rect").getBoundingClientRect();
  return [...vertex.querySelectorAll(".within > *")].filter((text) => {
    const at = text.getBoundingClientRect();
    return at.left < box.left || at.right > box.right || at.top < box.top || at.bottom > box.bottom;
  }).map((text) => text.textContent);
})"""


@pytest.mark.parametrize(("language", "waiting"), [("en", "12,000 waiting"), ("de", "12.000 wartend")])
def test_texts_of_the_topology_stay_in_their_boxes(page: Page, language: str, waiting: str) -> None:
    page.context.add_cookies([{"name": "mom_language", "value": language, "url": page.url}])
    page.goto("/console/")
    wait_live(page)
    drawing = page.locator("svg.topology")
    node = drawing.locator(".vertex", has_text=BRIDGE)
    expect(node.locator(".caption").last).to_have_text(waiting)
    assert drawing.evaluate(_OVER) == []
    # What waits is never cut; a name that is, can be read in full.
    assert node.locator(".caption").last.evaluate("(it) => it.scrollWidth <= it.clientWidth")
    assert str(node.get_attribute("aria-label")).startswith(f"{BRIDGE} ")
    # Labels have a background of their own.
    assert drawing.locator(".line text").first.evaluate("(it) => getComputedStyle(it).paintOrder") == "stroke"


def test_labels_of_charts_are_within_their_card(page: Page) -> None:
    charts = page.locator("mom-node-charts")
    charts.locator("svg text").first.wait_for()
    outside = charts.evaluate("""(charts) => {
      const card = charts.closest(".card").getBoundingClientRect();
      return [...charts.querySelectorAll("svg text")].filter((label) => {
        const { left, right } = label.getBoundingClientRect();
        return left < card.left || right > card.right;
      }).map((label) => label.textContent);
    }""")
    assert outside == []


def test_figures_come_first_and_a_banner_takes_one_line_on_a_phone(page: Page) -> None:
    banner = page.locator("mom-banners .banner")
    expect(banner).to_contain_text(BRIDGE)
    top = "(it) => it.getBoundingClientRect().top"
    attention = page.locator("mom-attention-list").evaluate(top)
    figures = page.locator("mom-node-figures")
    assert figures.evaluate(top) < attention
    last_steps = figures.locator("a", has_text="backlog").locator(".spark")
    expect(last_steps.locator("path")).to_have_attribute("d", re.compile("^M"))
    page.set_viewport_size(PHONE)
    expect(last_steps).to_be_hidden()
    assert banner.evaluate("(it) => it.offsetHeight") <= 40
    parts = banner.locator(".icon, .caption, a:visible").evaluate_all(
        "(parts) => parts.map((it) => it.getBoundingClientRect()).map(({top, bottom}) => (top + bottom) / 2)"
    )
    assert max(parts) - min(parts) < 4, "they stand in one line"


def test_the_footer_says_live_and_no_age_of_a_report_of_this_second(page: Page) -> None:
    pill = page.locator("mom-live-pill .caption")
    seen = pill.evaluate("""(pill) => new Promise((done) => {
      const seen = new Set([pill.textContent]);
      const changes = new MutationObserver(() => seen.add(pill.textContent));
      changes.observe(pill, {characterData: true, subtree: true, childList: true});
      setTimeout(() => done([...seen]), 2500);
    })""")
    assert all(text == "live" or float(text.split()[1]) >= 1.5 for text in seen), seen


def test_more_alerts_than_are_shown_are_a_line_of_the_list(page: Page, broker: BrokerProcess) -> None:
    rule = {"condition": "no-consumer", "threshold": 1, "for_s": 0, "pattern": "/queue/shelf.>"}
    broker.request("PUT", "/api/v1/alerts/rules/shelf", json_body=rule, if_none_match="*")
    for number in range(9):
        fill(broker, f"shelf.{number}", 1)
    more = page.locator("mom-attention-list footer a")
    expect(more).to_contain_text("more")
    caption = page.locator("mom-attention-list .caption").first
    size = "(it) => getComputedStyle(it).fontSize"
    assert more.evaluate(size) == caption.evaluate(size)
    edge = page.locator(".card", has=page.locator("mom-attention-list")).bounding_box()
    begins = more.bounding_box()
    assert edge is not None and begins is not None
    assert begins["x"] - edge["x"] >= 12 and edge["y"] + edge["height"] - begins["y"] - begins["height"] >= 4
    broker.request("DELETE", "/api/v1/alerts/rules/shelf", if_match="*")
