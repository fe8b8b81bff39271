"""Accessibility of pages: widths, and axe's rules. All pages are walked through by
`test_every_page`; here is what tests of a state need that only comes by doing something."""

from collections.abc import Mapping
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize

DESKTOP: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

#: what a change of colours can break
COLOURS = ["color-contrast", "link-in-text-block"]
#: what another width can break, but for colours: the names of what only it shows, and what scrolls in it
WIDTHS = [
    "aria-hidden-focus",
    "button-name",
    "input-button-name",
    "label",
    "link-name",
    "scrollable-region-focusable",
    "select-name",
    "summary-name",
]


#: marks what is visible, and later what has become visible since
_MARK_VISIBLE = """() => document.querySelectorAll("body *").forEach(
  (element) => element.toggleAttribute("data-seen", element.checkVisibility()))"""
_MARK_NEW = """() => {
  const shown = [...document.querySelectorAll("body :not([data-seen])")].filter((e) => e.checkVisibility());
  shown.forEach((element) => element.setAttribute("data-new", ""));
  return shown.length;
}"""


def mark_visible(page: Page) -> None:
    """Remembers what the page shows at this width, for `assert_new_colours`."""
    page.evaluate(_MARK_VISIBLE)


def assert_new_colours(page: Page) -> None:
    """Check the colours of elements that became visible since `mark_visible`; checking all takes seconds."""
    if page.evaluate(_MARK_NEW):
        assert_no_violations(page, *COLOURS, within="[data-new]")


#: what is the same on each page of the console
_FRAME = ("header.top", ".explorer", "footer.bottom")
OUTSIDE_THE_FRAME = {"include": [["html"]], "exclude": [[selector] for selector in _FRAME]}


def assert_no_violations(page: Page, *rules: str, within: str | Mapping[str, Any] = "") -> None:
    """None of axe's rules is broken, or none of those that are named, in what a selector or a context has."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    loaded = page.evaluate("'axe' in window")
    axe = Axe("null") if loaded else Axe()  # the half megabyte of its script is sent once to a page
    results = axe.run(page, context=within or None, options=options)
    assert results.violations_count == 0, f"{page.url}\n{results.generate_report()}"


def assert_fits(page: Page) -> None:
    """Nothing makes the page scroll sideways."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} scrolls {wide} px sideways"
