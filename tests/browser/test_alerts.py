"""Alerts, from the overview to their page, in a real browser."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll


def events_of(broker: BrokerProcess, rule: str) -> list[Any]:
    """The facts of the events of an alert rule."""
    logged = broker.request("GET", "/api/v1/events?kind=alerts").json()["items"]
    return [one["facts"] for one in logged if one["name"] == rule]


def test_an_alert_is_acknowledged_reopened_and_silenced(page: Page, broker: BrokerProcess) -> None:
    rule = {"condition": "no-consumer", "for_s": 0, "pattern": "/queue/orders.new", "severity": "critical"}
    reply = broker.request("PUT", "/api/v1/alerts/rules/at-once", json_body=rule, if_none_match="*")
    assert reply.status == 201, reply
    assert broker.request("POST", "/api/v1/queues/orders.new/messages", b"1").status == 201
    sentence = "orders.new: 1 message waits, no consumers"
    attention = page.locator("mom-attention-list")
    expect(attention.get_by_role("link", name=sentence)).to_be_visible()
    expect(page.locator("mom-node-figures a", has_text="backlog")).to_contain_text("1")
    expect(page.locator("mom-busiest-list").get_by_role("link", name="orders.new")).to_be_visible()
    expect(page.locator("mom-node-topology").get_by_role("link", name="mom ")).to_be_visible()
    page.get_by_role("button", name="View as table").last.click()
    expect(page.locator("mom-node-topology").get_by_role("row", name="Producers")).to_be_visible()
    expect(page.locator("#latest-events")).to_contain_text("at-once fired")
    expect(attention.get_by_role("link", name="Consumers", exact=True)).to_have_attribute(
        "href", "/console/queues/one?name=orders.new&tab=consumers"
    )

    page.get_by_role("link", name="All alerts").click()
    alert = page.locator(".alerts li", has_text=sentence)
    alert.get_by_role("button", name="Acknowledge…").click()
    page.get_by_label("Reason").fill("on it")
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(alert).to_contain_text(f"acknowledged: {broker.user} (“on it”)")
    page.get_by_role("button", name="Undo").click()
    expect(alert).not_to_contain_text("acknowledged")
    alert.get_by_role("button", name="Silence…").click()
    page.locator("select[name=for_s]").select_option("1 day")
    page.get_by_role("button", name="Silence", exact=True).click()
    page.get_by_role("button", name="silenced 1").click()
    expect(alert).to_contain_text("until")
    assert page.url.endswith("/console/alerts/?state=silenced")

    poll(lambda: len(events_of(broker, "at-once")) == 4)  # what comes later waits behind a link
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.get_by_role("row", name="at-once")).to_have_count(4)
    found = events_of(broker, "at-once")
    assert [(one["condition"], one["subject"], one["value"], one["found"]["depth"]) for one in found] == [
        ("no-consumer", "/queue/orders.new", 1, 1)
    ] * 4
    assert broker.request("DELETE", "/api/v1/alerts/rules/at-once", if_match="*").status == 204
    page.get_by_role("link", name="1 new event").click()
    expect(page.get_by_role("row", name="at-once").first).to_contain_text("ended")


def test_alerts_of_one_rule_and_family_are_acknowledged_together(page: Page, broker: BrokerProcess) -> None:
    rule = {"condition": "no-consumer", "threshold": 1, "for_s": 0, "pattern": "/queue/shelves.>"}
    broker.request("PUT", "/api/v1/alerts/rules/shelves", json_body=rule, if_none_match="*")
    for name in ("shelves.left", "shelves.right"):
        broker.request("POST", f"/api/v1/queues/{name}/messages", b"1", content_type="text/plain")
    page.goto("/console/alerts/")
    group = page.locator(".alerts li.group", has_text="shelves.*: 2 queues without consumers")
    group.get_by_role("button", name="shelves.*").click()
    expect(group.locator(".members li")).to_have_count(2)
    group.get_by_role("button", name="Acknowledge…").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(group.get_by_role("img", name="acknowledged")).to_be_visible()
    group.get_by_role("button", name="shelves.*").click()
    expect(group.locator(".members li", has_text=f"acknowledged: {broker.user}")).to_have_count(2)

    page.goto("/console/alerts/rules/edit?name=shelves")
    preview = page.get_by_role("status", name="Preview")
    expect(preview).to_contain_text("It would fire now for 2 subjects")
    expect(preview.get_by_role("listitem")).to_have_text(["/queue/shelves.left", "/queue/shelves.right"])
    page.get_by_label("Threshold").fill("2")
    expect(preview).to_contain_text("It would not fire now")
    broker.request("DELETE", "/api/v1/alerts/rules/shelves", if_match="*")
