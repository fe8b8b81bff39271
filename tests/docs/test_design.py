"""docs/design/ agrees with itself and with the states of the product."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from broker_app.telemetry.component_health import HEALTH
from broker_app.telemetry.health import STATES
from broker_app.web.console.base.frame import NAVIGATION
from tests.docs.design import contrast, pages
from tests.docs.design.folder import FOLDER, TOKENS
from tests.docs.design.states import states

COMPONENTS = FOLDER / "components.css"
TEMPLATES = FOLDER.parents[1] / "templates"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CLASS_RULE = re.compile(r"\.([a-z][a-z-]*)")
_TEXT_OR_NUMBER = re.compile(r'"[^"]*"|\d*\.\d+[a-z%]*')
_CLASSES = re.compile(r'class="([^"]*)"')
#: colours of charts of three and four lines, which no page has
UNUSED_TOKENS = {"series-3", "series-4"}


def _css(*paths: Path) -> str:
    return _COMMENT.sub("", "\n".join(path.read_text(encoding="utf-8") for path in paths))


def _html() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.html"))


def test_roles_that_meet_have_the_contrast_of_wcag() -> None:
    weak = [pair for pair in contrast.measured() if min(pair.light, pair.dark) < pair.least]
    assert weak == []


def test_the_contrast_of_known_colours_is_that_of_wcag() -> None:
    white, black, grey = "oklch(100% 0 0)", "oklch(0% 0 0)", "oklch(59.99% 0 0)"
    assert contrast.contrast(white, black) == pytest.approx(21)
    # #808080 on white
    assert contrast.contrast(grey, white) == pytest.approx(3.95, abs=0.02)


def test_what_has_a_tone_stands_on_its_tint_and_on_no_mixture() -> None:
    """A tenth of amber in white looks like dirt."""
    pages_of_console = sorted((FOLDER.parents[1] / "frontend" / "src" / "style").glob("*.css"))
    mixed = re.compile(r"background: color-mix\(in \w+, var\(--(?:tone|good|warn|bad)\b[^)]*\)+ 1?\d%, var")
    assert [path.name for path in pages_of_console if mixed.search(_css(path))] == []
    for light, dark in (contrast.colours(_css(TOKENS))[f"{tone}-tint"] for tone in ("good", "warn", "bad")):
        assert min(contrast.chroma(light), contrast.chroma(dark)) >= 0.025


def test_every_state_of_the_product_has_a_row() -> None:
    found = states()
    assert {key for of, key in found if of == "component"} == set(HEALTH)
    assert {key for of, key in found if of == "destination"} == set(STATES)


def test_a_label_has_the_same_icon_and_tone_everywhere() -> None:
    looks = defaultdict(set)
    for state in states().values():
        looks[state.label].add((state.icon, state.tone))
    assert {label: found for label, found in looks.items() if len(found) > 1} == {}


@pytest.mark.parametrize("source", pages.sources(), ids=lambda source: source.stem)
def test_pages_are_those_of_their_templates(source: Path) -> None:
    current = (FOLDER / source.name).read_text(encoding="utf-8")
    assert pages.rendered(source) == current, "run `python -m tests.docs.design.pages`"


def test_pages_keep_to_the_content_security_policy() -> None:
    assert not re.findall(r"<style|\sstyle=|\son\w+=|<script>|javascript:", _html())


def test_every_class_of_the_pages_has_a_rule_and_every_rule_is_used() -> None:
    ruled = set(_CLASS_RULE.findall(_TEXT_OR_NUMBER.sub("", _css(TOKENS, COMPONENTS))))
    used = {name for names in _CLASSES.findall(_html()) for name in names.split()}
    assert ruled == used


def test_components_use_all_tokens_and_no_other_colours_or_faces() -> None:
    parts = _css(COMPONENTS)
    assert not re.findall(r"#[0-9a-f]{3,8}\b|oklch\(|rgba?\(|hsla?\(|font-family: (?!var)", parts)
    defined = set(re.findall(r"--([\w-]+):", _css(TOKENS, COMPONENTS)))
    used = set(re.findall(r"var\(--([\w-]+)", _css(TOKENS, COMPONENTS)))
    assert used - defined == set()
    assert defined - used == UNUSED_TOKENS


def test_every_icon_is_used_and_exists() -> None:
    rows = {state.icon for state in states().values()}
    entries = {item.icon for _, group in NAVIGATION for item in group}
    templates = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.rglob("*.html"))
    used = set(re.findall(r'<use href="#([\w-]+)"', _html())) | rows | entries
    used |= set(re.findall(r'{% icon "([\w-]+)" %}', templates))
    assert used == set(pages.symbols_by_name())
