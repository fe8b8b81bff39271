"""The pages of reflexes, in a real browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess


def send(broker: BrokerProcess) -> int:
    return broker.request("POST", "/api/v1/queues/stock/messages", b"1").status


def test_a_reflex_is_added_found_by_its_refusals_and_disabled(page: Page, broker: BrokerProcess) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("refle")
    page.get_by_role("option", name="Reflexes").click()
    page.get_by_role("link", name="Add a reflex").first.click()
    page.get_by_label("Name of the reflex").fill("slow-down")
    page.get_by_label("Service", exact=True).fill("stock")
    page.get_by_label("Library", exact=True).fill("mom")
    page.get_by_label("Function", exact=True).fill("limit_rate")
    preview = page.get_by_label("Preview", exact=True)
    expect(preview).to_contain_text("option rate is missing: how many a second")
    page.get_by_label("Options", exact=True).fill('{"rate": 0.001}')
    expect(preview).to_contain_text("limit_rate")
    page.get_by_role("button", name="Save").click()
    # Exact: the preview of the form has the heading "Reflex slow-down created", before anything is saved.
    expect(page.get_by_role("heading", name="Reflex slow-down", exact=True)).to_be_visible()
    assert [send(broker), send(broker)] == [201, 403]

    # The page is updated with the event of the refusal.
    expect(page.locator("dl.facts div", has_text="refusals").locator("dd")).to_have_text("1")
    page.get_by_role("link", name="Refusals").click()
    row = page.get_by_role("row", name="slow-down")
    expect(row).to_contain_text(f"FILTERED: message from {broker.user} to /queue/stock: more than 0.001")
    row.get_by_role("link", name="slow-down").click()

    page.get_by_role("button", name="Disable", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It is not asked any more until it is enabled")
    dialog.get_by_role("button", name="Disable").click()
    expect(page.get_by_label("State")).to_contain_text("disabled")
    assert send(broker) == 201
    page.get_by_role("button", name="Enable", exact=True).click()
    expect(page.get_by_label("State")).to_contain_text("running")
    assert [send(broker), send(broker)] == [201, 403], "its bucket is full again"

    page.goto("/console/queues/one?name=stock&tab=routing")
    page.get_by_role("row", name="slow-down").get_by_role("link").click()
    page.get_by_role("link", name="Remove…").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("There are no reflexes yet.")).to_be_visible()
    assert send(broker) == 201
