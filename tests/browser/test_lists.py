"""Lists are filtered as one types, and say what they show in the address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, StorageState, expect

from tests.browser.conftest import OpenPage, wait_live
from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="module", autouse=True)
def configured(broker: BrokerProcess) -> None:
    reflex = {"service": "orders", "library": "mom", "function": "limit_rate", "options": {"rate": 1000}}
    for path, content in (
        ("users/jane", {"password": "the password of jane"}),
        ("groups/office", {}),
        ("rules/janes", {"conditions": "/event/queue == orders", "users": ["jane", "admin"]}),
        ("bridges/west", {"hostname": broker.host, "port": 1}),
        ("callbacks/hook", {"url": f"{broker.url}/", "queue": "orders"}),
        ("reflexes/slow", reflex),
    ):
        assert broker.request("PUT", f"/api/v1/{path}", json_body=content).status < 300, path


@pytest.mark.parametrize(
    "address", ["users", "groups", "bridges", "callbacks", "reflexes", "configuration", "events"]
)
def test_a_list_is_filtered_as_one_types(tab: Page, address: str) -> None:
    tab.goto(f"/console/{address}/")
    field = tab.locator("main input[name=filter]")
    field.press_sequentially("zzz")
    expect(tab).to_have_url(re.compile(r"filter=zzz"))
    expect(tab.get_by_role("link", name="Clear filter")).to_be_visible()
    expect(field).to_be_focused()
    expect(tab.locator("form[role=search] > button")).to_be_hidden()


def test_versions_are_filtered_as_one_chooses(tab: Page) -> None:
    tab.goto("/console/configuration/versions/")
    rows = tab.locator("main table.resources tbody tr")
    expect(rows.nth(2)).to_be_visible()
    tab.get_by_label("Changed resource").select_option("groups")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("office")
    expect(tab).to_have_url(re.compile(r"kind=groups"))


def test_dates_are_those_of_the_region_of_the_browser(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    for locale, date in (("en-GB", r"^\d{1,2} \w{3,4} \d{4}, "), ("en-US", r"^\w{3} \d{1,2}, \d{4}, ")):
        page = open_page(broker, "/console/connections/", session, locale=locale)
        wait_live(page)
        since = page.locator("td.col-since time").first
        expect(since).to_have_attribute("title", re.compile(date))
