"""What a page looks like to everybody: widths, and axe's rules. All pages are walked through by
`test_every_page`; here is what tests of a state need that only comes by doing something."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize

DESKTOP: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

#: what a change of colours can break
COLOURS = ["color-contrast", "link-in-text-block"]
#: what another width can break: the colours and names of what only it shows, and what scrolls in it
WIDTHS = [
    *COLOURS,
    "aria-hidden-focus",
    "button-name",
    "input-button-name",
    "label",
    "link-name",
    "scrollable-region-focusable",
    "select-name",
    "summary-name",
]


def assert_no_violations(page: Page, *rules: str) -> None:
    """None of axe's rules is broken, or none of those that are named."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    results = Axe().run(page, options=options)
    assert results.violations_count == 0, f"{page.url}\n{results.generate_report()}"


def assert_fits(page: Page) -> None:
    """Nothing makes the page scroll sideways."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} scrolls {wide} px sideways"
