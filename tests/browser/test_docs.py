"""The page that shows the HTTP interface, in a browser."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, Route, StorageState, expect

from tests.browser.conftest import OpenPage
from tests.support.broker_process import BrokerProcess
from tests.support.chromium import launch

TAGS = ("queues", "leases", "rules", "tokens")
#: with all others, which `make soak` shows, the page computes half as long again
SHOWN = TAGS if "SOAK" not in os.environ else ()


@pytest.fixture(scope="module")
def chromium(chromium: Browser) -> Iterator[Browser]:
    """A browser with all its compilers: this page computes for long."""
    with launch(chromium.browser_type) as browser:
        yield browser


def only_shown(route: Route) -> None:
    """The document, with only the operations of some tags, if these are named."""
    reply = route.fetch()
    document = reply.json()
    if SHOWN:
        document["paths"] = {
            path: operations
            for path, operations in document["paths"].items()
            if any(set(SHOWN) & set(one["tags"]) for one in operations.values() if "tags" in one)
        }
    route.fulfill(response=reply, json=document)


@pytest.mark.slow
def test_the_api_docs_work_without_the_internet(
    broker: BrokerProcess, session: StorageState, open_page: OpenPage
) -> None:
    page = open_page(broker, None, session)
    requested: list[str] = []

    def note(request: Request) -> None:
        requested.append(request.url)

    page.on("request", note)
    page.route("**/openapi.json*", only_shown)
    page.goto("/docs/")
    for tag in TAGS:
        expect(page.get_by_role("link", name=tag, exact=True)).to_be_visible()
    page.get_by_role("link", name="rules", exact=True).click()
    page.locator("#operations-rules-list_rules").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_text('"approx_total": 0').first).to_be_visible()
    assert [url for url in requested if not url.startswith((broker.url, "data:"))] == []
