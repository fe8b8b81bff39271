"""Accessibility of pages: widths, and axe's rules. All pages are walked through by
`test_every_page`; here is what tests of a state need that only comes by doing something."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe, AxeResults
from playwright.sync_api import Page, ViewportSize

DESKTOP: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, Theme] = ("light", "dark")

#: what a change of colours can break
CONTRAST = "color-contrast"
COLOURS = [CONTRAST, "link-in-text-block"]
#: of WCAG 2.2 AA and 2.1 A, but not among those that axe looks at by itself
FURTHER = ["target-size", "label-content-name-mismatch"]
#: what another width can break, but for colours: the names of what only it shows, and what scrolls in it
WIDTHS = [
    *FURTHER,
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


#: marks the text that looks like none before, by its colours, its size, and what is behind it; returns the
#: new looks. What is disabled needs no contrast, and of one letter alone axe does not know it. An editor
#: would remove a mark within it. Three of a look are marked: of one that is covered axe cannot tell.
_MARK_LOOKS = """([frame, checked]) => {
  const known = new Set(checked), found = new Map(), drawn = new Map();
  const within = (root) => [...root.querySelectorAll("*")].flatMap(
    (element) => element.shadowRoot ? [element, ...within(element.shadowRoot)] : [element]);
  const host = (element) => element.getRootNode().host ?? null;
  const behind = (element) => {
    if (element === null) return "";
    if (!drawn.has(element)) {
      const style = getComputedStyle(element);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter];
      drawn.set(element, [behind(element.parentElement ?? host(element)), ...own].join(" "));
    }
    return drawn.get(element);
  };
  for (const element of within(document.body)) {
    const text = [...element.childNodes].map((node) => node.nodeType === 3 ? node.data.trim() : "").join("");
    if (!(text || element.matches("input, select, textarea")) || !element.checkVisibility()) continue;
    if (frame && element.closest(frame)) continue;
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element);
    const unclear = [element.closest(":disabled, [aria-disabled=true]") !== null, text.length === 1];
    const look = [color, fontSize, fontWeight, textShadow, ...unclear, behind(element)].join("|");
    const before = found.get(look) ?? 0;
    if (!known.has(look) && before < 3) {
      found.set(look, before + 1);
      const around = host(element);
      if (around) around.setAttribute("data-looks-within", "");
      else element.setAttribute("data-look", "");
    }
  }
  return [...found.keys()];
}"""


#: one run of all rules: finding what is on a page, above all what lies on what, takes axe longest.
#: A page that is live may replace at any time what was marked, so axe looks at it in the same turn.
_CHECK_NEW_LOOKS = f"""async ([frame, checked, context]) => {{
  const found = ({_MARK_LOOKS})([frame, checked]);
  const select = (selector) => axe.configure({{rules: [{{id: "{CONTRAST}", selector}}]}});
  const rules = {{"{CONTRAST}": {{enabled: found.length > 0}}}};
  for (const rule of {FURTHER}) rules[rule] = {{enabled: true}};
  select("[data-look], [data-looks-within] *");
  try {{
    const {{ violations }} = await axe.run(context, {{resultTypes: ["violations"], rules}});
    return [found, {{violations}}];
  }} finally {{
    select("*");
  }}
}}"""


class Contrasts:
    """Contrast of text on one page after the other: a look that had enough of it is not checked again.

    Checking all text of a page takes axe longer than its other ninety rules together.
    """

    def __init__(self) -> None:
        self._checked: set[str] = set()

    def check(self, page: Page, frame: bool) -> None:
        """Fails if the page breaks any of axe's rules, that of contrast in text of a new look; `frame` says
        whether what is the same on each page counts."""
        load_axe(page)
        without = "" if frame else ", ".join(_FRAME)
        context = {"include": [["html"]]} if frame else OUTSIDE_THE_FRAME
        new, found = page.evaluate(_CHECK_NEW_LOOKS, [without, list(self._checked), context])
        _assert_none(page, AxeResults(found))
        self._checked.update(new)


#: what is the same on each page of the console
_FRAME = ("header.top", ".explorer", "footer.bottom")
OUTSIDE_THE_FRAME = {"include": [["html"]], "exclude": [[selector] for selector in _FRAME]}


AXE: str = Axe().axe_script


def assert_no_violations(
    page: Page, *rules: str, within: str | Mapping[str, Any] = "", without: Sequence[str] = ()
) -> None:
    """None of axe's rules is broken, or none of those that are named, in what a selector or a context has."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    options["rules"] = {rule: {"enabled": rule not in without} for rule in (*FURTHER, *without)}
    if rules:
        options["runOnly"] = list(rules)
    load_axe(page)
    _assert_none(page, Axe("null").run(page, context=within or None, options=options))


def assert_looks(page: Page, every: bool) -> None:
    """Checks that a page is accessible and fits at both widths: with `every`, its colours in both themes, or
    else in one of them, by chance."""
    theme, other = random.sample(THEMES, 2)
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size(DESKTOP)
    assert_no_violations(page)
    assert_fits(page)
    if every:
        page.emulate_media(color_scheme=other)
        assert_no_violations(page, *COLOURS)
    page.set_viewport_size(PHONE)
    assert_no_violations(page, *WIDTHS, *(COLOURS if every else ()))
    assert_fits(page)
    page.set_viewport_size(DESKTOP)
    page.emulate_media(color_scheme="light")


def load_axe(page: Page) -> None:
    """Send the half megabyte of its script, once to a page; `AXE` as an init script is there already."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)


def _assert_none(page: Page, results: AxeResults) -> None:
    for violation in results.response["violations"]:
        for node in violation["nodes"]:
            # What is in a shadow tree has a list of selectors, which a report cannot be made of.
            node["target"] = [one if isinstance(one, str) else " ".join(one) for one in node["target"]]
    assert results.violations_count == 0, f"{page.url}\n{results.generate_report()}"


#: an init script: notes what moves by itself, with how far (the share of the window, as web vitals count it)
NOTE_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput, sources } of list.getEntries()) {
    if (hadRecentInput) continue;
    const element = ({ node }) => (node?.nodeType === 1 ? node : node?.parentElement);
    const moved = sources.map((source) => element(source)?.outerHTML.slice(0, 100));
    window.shifts.push({ value, moved });
  }
}).observe({ type: "layout-shift", buffered: true });
"""
#: what Google calls good is 0.1
MOST_SHIFT = 0.05


def assert_nothing_moved(page: Page) -> None:
    """Since the page was asked for, little has moved in it; its context has NOTE_SHIFTS."""
    shifts: list[dict[str, Any]] = page.evaluate("window.shifts")
    total = sum(shift["value"] for shift in shifts)
    report = "\n".join(f"{shift['value']:.3f} {shift['moved']}" for shift in shifts)
    assert total <= MOST_SHIFT, f"{page.url} moved by {total:.3f}:\n{report}"


def assert_cells_have_their_heads(page: Page) -> None:
    """On a phone the label of a cell replaces the head of its column: it is that, or a word of it."""
    wrong = page.evaluate(
        """() => [...document.querySelectorAll("table:has(thead) > tbody > tr")].flatMap((row) => {
          const heads = [...row.closest("table").querySelectorAll("thead tr:last-child > *")];
          if (row.cells.length !== heads.length) return [];
          const text = (head) => head.textContent.replace(/\\s+/g, " ").trim().toLowerCase();
          return [...row.cells].flatMap((cell, at) => {
            const label = cell.dataset.label?.toLowerCase();
            return label && !text(heads[at]).includes(label) ? [`${label} below ${text(heads[at])}`] : [];
          });
        })"""
    )
    assert wrong == [], f"{page.url}: {sorted(set(wrong))}"


#: words that are broken within, but for those of messages and code; cells that are narrower than 8
#: characters and therefore of several lines; times and buttons of several lines; choices of a toolbar that
#: are wider than their words need
_BROKEN = """() => {
  const shown = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const textsIn = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), texts = [];
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
      if (text.data.trim() && shown(text.parentElement)) texts.push(text);
    }
    return texts;
  };
  const rects = (text, begin = 0, end = text.length) => {
    const range = document.createRange();
    range.setStart(text, begin);
    range.setEnd(text, end);
    return [...range.getClientRects()].filter(({ width }) => width > 1);
  };
  const lines = (boxes) => {
    let number = 0, below = -Infinity;
    for (const { top, bottom } of boxes.toSorted((one, other) => one.top - other.top)) {
      if (top >= below - 3) number += 1;
      below = Math.max(below, bottom);
    }
    return number;
  };
  const linesOf = (element) => lines(textsIn(element).flatMap((text) => rects(text)));
  const found = [];
  const main = document.querySelector("main");
  if (!main) return found;
  const word = /\\p{L}{3,14}/gu;
  for (const text of textsIn(main)) {
    if (text.parentElement.closest("pre, code, .body, textarea, svg, .visually-hidden, .cm-editor")) continue;
    if (lines(rects(text)) < 2) continue;
    for (const { 0: letters, index } of text.data.matchAll(word)) {
      if (lines(rects(text, index, index + letters.length)) > 1) found.push(`the word ${letters} is broken`);
    }
  }
  for (const cell of main.querySelectorAll("td, tbody th")) {
    if (!shown(cell) || !cell.textContent.trim()) continue;
    const style = getComputedStyle(cell);
    const room = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (room < 4 * parseFloat(style.fontSize) && linesOf(cell) > 1) {
      found.push(`${Math.round(room)} px for: ${cell.textContent.trim()}`);
    }
  }
  for (const one of main.querySelectorAll("table time, table :is(button, a.button)")) {
    if (shown(one) && linesOf(one) > 1) found.push(`several lines: ${one.textContent.trim()}`);
  }
  for (const choice of main.querySelectorAll(":is(.tools, .toolbar) select")) {
    if (!shown(choice) || choice.offsetWidth <= 320) continue;
    found.push(`${choice.name} is ${choice.offsetWidth} px wide`);
  }
  return found;
}"""


def assert_whole(page: Page) -> None:
    """No word is broken, no column is narrower than its words, and what is short takes one line."""
    broken = page.evaluate(_BROKEN)
    width = page.viewport_size["width"] if page.viewport_size else 0
    assert broken == [], f"{page.url} at {width}:\n" + "\n".join(sorted(set(broken)))


def assert_fits(page: Page) -> None:
    """Nothing makes the page, or its content, which scrolls by itself, scroll sideways."""
    wide = page.evaluate(
        """() => Math.max(...[document.documentElement, ...document.querySelectorAll(".overview")].map(
          (element) => element.scrollWidth - element.clientWidth))"""
    )
    assert wide <= 0, f"{page.url} scrolls {wide} px sideways"
