"""Everybody can use the page: themes, widths, assistive technology, strict CSP, and little to load."""

import gzip
import json

from playwright.sync_api import StorageState, expect

from tests.browser.conftest import DIST, OpenPage, wait_live
from tests.browser.looks import COLOURS, PHONE, assert_fits, assert_no_violations
from tests.support.broker_process import BrokerProcess

CORE_KIB = 30
PAGE_KIB = 80


def test_signing_in_is_accessible(open_page: OpenPage, broker: BrokerProcess) -> None:
    page = open_page(broker, "/login/", viewport=PHONE)
    page.get_by_label("User name").fill("nobody")
    page.get_by_label("Password").fill("nothing")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert_no_violations(page)
    assert_fits(page)
    page.emulate_media(color_scheme="dark")
    assert_no_violations(page, *COLOURS)


def test_a_phone_shows_one_thing_at_a_time(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/", session, viewport=PHONE)
    page.locator("tbody a").first.click()
    expect(page.locator(".panel")).to_be_in_viewport()
    expect(page.locator("mom-destination-list")).to_be_hidden()
    page.get_by_role("button", name="Close").click()
    expect(page.locator("mom-destination-list")).to_be_visible()


def test_the_policy_forbids_inline_code_and_foreign_sources(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState, complaints: list[str]
) -> None:
    page = open_page(broker, "/console/", session)
    wait_live(page)
    # That the page works under the policy is seen by every test; that the policy bites, here.
    inline = "Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'})"
    page.evaluate(f"document.body.append({inline})")
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    assert page.evaluate("window.ran") is None
    assert len(complaints) == 2
    assert all("Content Security Policy" in complaint for complaint in complaints)
    complaints.clear()


def test_the_page_stays_within_its_size_budget() -> None:
    manifest = json.loads((DIST / "manifest.json").read_text())

    def kib(entry: str) -> float:
        return len(gzip.compress((DIST / manifest[entry]["file"]).read_bytes(), 9)) / 1024

    entry = manifest["src/main.ts"]
    core = sum(kib(name) for name in entry["imports"])
    assert core <= CORE_KIB
    assert core + kib("src/main.ts") + kib("src/style/console.css") <= PAGE_KIB
