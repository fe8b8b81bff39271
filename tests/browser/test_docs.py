"""The page that shows the HTTP interface, in a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, StorageState, expect

from tests.browser.conftest import OpenPage
from tests.support.broker_process import BrokerProcess
from tests.support.chromium import launch


@pytest.fixture(scope="module")
def chromium(chromium: Browser) -> Iterator[Browser]:
    """A browser with all its compilers: this page computes for long."""
    with launch(chromium.browser_type) as browser:
        yield browser


@pytest.mark.slow
def test_the_api_docs_work_without_the_internet(
    broker: BrokerProcess, session: StorageState, open_page: OpenPage
) -> None:
    page = open_page(broker, "/console/", session)
    requested: list[str] = []

    def note(request: Request) -> None:
        requested.append(request.url)

    page.on("request", note)
    page.goto(f"{broker.url}/docs/")
    for tag in ("queues", "leases", "rules", "tokens"):
        expect(page.get_by_role("link", name=tag, exact=True)).to_be_visible()
    page.get_by_role("link", name="rules", exact=True).click()
    page.locator("#operations-rules-list_rules").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_text('"approx_total": 0').first).to_be_visible()
    assert [url for url in requested if not url.startswith((broker.url, "data:"))] == []
