"""Accessibility of pages: themes, widths, assistive technology, and strict CSP."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from playwright.sync_api import StorageState, expect

from mom_site.database import file_of
from tests.browser.conftest import OpenPage, wait_live
from tests.browser.looks import COLOURS, PHONE, THEMES, assert_fits, assert_no_violations
from tests.support.broker_process import BrokerProcess


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


def test_an_error_of_the_broker_leads_on_once_its_cause_is_gone(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState, complaints: list[str]
) -> None:
    page = open_page(broker, "/console/", session, viewport=PHONE)
    with without_table(broker, "broker_app_mask"):
        page.goto("/console/masks/")
        expect(page.get_by_role("heading", name="Internal error")).to_be_visible()
        expect(page.locator("pre")).to_contain_text("GET /console/masks/")
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            assert_no_violations(page)
        assert_fits(page)
    page.get_by_role("link", name="Try again").click()
    expect(page.get_by_role("heading", level=1, name="Masks")).to_be_visible()
    assert all("500" in complaint for complaint in complaints)
    complaints.clear()


@contextmanager
def without_table(broker: BrokerProcess, table: str) -> Iterator[None]:
    """The broker fails to read it: as long as this lasts, the table has another name."""

    def rename(former: str, name: str) -> None:
        with closing(sqlite3.connect(file_of(broker.data))) as database:
            database.execute(f"ALTER TABLE {former} RENAME TO {name}")

    rename(table, "away")
    yield
    rename("away", table)


def test_on_a_phone_the_explorer_covers_the_page_and_closes_after_navigation(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/", session, viewport=PHONE)
    explorer = page.get_by_role("navigation", name="Explorer")
    expect(explorer).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    explorer.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("heading", level=1, name="Audit")).to_be_visible()
    expect(explorer).to_be_hidden()
    assert_fits(page)


def test_compact_rows_are_lower_in_the_lists_of_queues_and_messages(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    assert broker.request("POST", "/api/v1/queues/dense/messages", b"one").status == 201
    page = open_page(broker, None, session)
    for address, rows in (
        ("/console/queues/?filter=dense", "tr:has-text('dense')"),
        ("/console/queues/one?name=dense&tab=messages", "tr.message"),
    ):
        page.goto(address)
        row = page.locator(f"tbody {rows}").first
        expect(row).to_be_visible()
        heights = []
        for density in ("comfortable", "compact"):
            page.evaluate(f"document.documentElement.dataset.density = '{density}'")
            heights.append(row.evaluate("row => row.offsetHeight"))
        assert heights[1] <= heights[0] - 4, (address, heights)


def test_text_has_two_weights_of_a_face_that_is_loaded_with_the_page(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/style", session)
    wait_live(page)
    weights = page.evaluate("""() => [...new Set([...document.querySelectorAll("body, body *")]
      .map((element) => getComputedStyle(element).fontWeight))].sort()""")
    assert weights == ["400", "550"]
    loaded = page.evaluate("""() => document.fonts.ready.then((all) => [...all]
      .filter((face) => face.status === "loaded").map((face) => face.family.replaceAll('"', "")))""")
    assert "Inter" in loaded
    # Nothing else would be loaded before the style that names it.
    assert page.locator("link[rel=preload][as=font]").count() == 1


def test_the_csp_forbids_inline_code_and_foreign_sources(
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
