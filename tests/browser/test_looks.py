"""The check of the looks of pages finds what is wrong with them."""

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.looks import Contrasts

#: a page with nothing wrong, its style and its content
PAGE = """<html lang="en"><title>A page</title><style>body {{ color: black; background: white; }} {}</style>
  <main><h1>A page</h1>{}</main></html>"""
PALE = "p, div { color: #ccc }"
IN_A_SHADOW = '<template shadowrootmode="open"><i>Text</i></template>'


@pytest.fixture
def page(chromium: Browser) -> Page:
    return chromium.new_page()


@pytest.mark.parametrize(
    ("style", "content", "rule"),
    [
        (PALE, "<p>Text</p>", "color-contrast"),
        (PALE, f"<div>{IN_A_SHADOW}</div>", "color-contrast"),
        ("", "<input>", "label"),
    ],
)
def test_a_page_that_breaks_a_rule_is_found(page: Page, style: str, content: str, rule: str) -> None:
    page.set_content(PAGE.format(style, content))
    with pytest.raises(AssertionError, match=rule):
        Contrasts().check(page, frame=True)


def test_three_texts_of_a_look_stand_for_all_on_a_page(page: Page) -> None:
    page.set_content(PAGE.format("", "<p>Text</p>" * 9))
    Contrasts().check(page, frame=True)
    assert page.locator("p[data-look]").count() == 3


def test_a_look_that_an_earlier_page_had_is_not_checked_again_and_others_are(page: Page) -> None:
    contrasts = Contrasts()
    page.set_content(PAGE.format("", "<p>Text</p>"))
    contrasts.check(page, frame=True)
    page.set_content(PAGE.format("", "<p>More</p>"))
    contrasts.check(page, frame=True)
    assert page.locator("[data-look]").count() == 0
    page.set_content(PAGE.format("", "<p>Text</p>" + '<b style="color: #ccc">Pale</b>'))
    with pytest.raises(AssertionError, match="color-contrast"):
        contrasts.check(page, frame=True)
