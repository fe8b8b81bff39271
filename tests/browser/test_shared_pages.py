"""Tests use one page after the other: nothing of one reaches the next."""

from playwright.sync_api import Browser, StorageState

from tests.browser.conftest import EMPTY, SharedPages
from tests.support.broker_process import BrokerProcess


def test_a_page_that_was_used_before_keeps_nothing_of_that(
    chromium: Browser, broker: BrokerProcess, session: StorageState
) -> None:
    pages = SharedPages(chromium)
    page = pages.page(broker, session)
    page.route("**/*", lambda route: route.continue_())
    page.goto(EMPTY)
    page.evaluate("localStorage.left = sessionStorage.left = 'something'")
    page.emulate_media(color_scheme="dark")
    page.context.new_page()
    pages.leave()
    assert pages.page(broker, None) is page
    assert page.context.pages == [page]
    assert page.context.cookies() == []
    page.goto(EMPTY)
    left = "[localStorage.length, sessionStorage.length, matchMedia('(prefers-color-scheme: dark)').matches]"
    assert page.evaluate(left) == [0, 0, False]
    pages.close()
