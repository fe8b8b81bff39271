"""The parts of the pages that are drawn: icons, states, small lines, charts."""

from random import Random
from typing import Final

from django.template import Library
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from tests.docs.design.states import states

register = Library()

POINTS: Final = 60
SPARK_POINTS: Final = 24


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite; the text next to it has its meaning."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#{}"/></svg>', name)


@register.simple_tag
def chevron() -> SafeString:
    """The mark of what unfolds."""
    return SafeString('<svg class="icon chevron" aria-hidden="true"><use href="#chevron-right"/></svg>')


@register.simple_tag
def state(of: str, key: str) -> SafeString:
    """A state as in rows."""
    return _shown("state", of, key)


@register.simple_tag
def badge(of: str, key: str) -> SafeString:
    """A state as in a headline."""
    return _shown("badge", of, key)


def _shown(style: str, of: str, key: str) -> SafeString:
    row = states()[of, key]
    return format_html(
        '<span class="{}" data-tone="{}">{} {}</span>', style, row.tone, icon(row.icon), row.label
    )


@register.simple_tag
def spark(course: str, tone: str = "") -> SafeString:
    """The last minutes of a value: `course` as of `values`."""
    found = values(course, SPARK_POINTS)
    highest = max(max(found), 0.01)
    line = _path([0.95 * value / highest for value in found])
    attribute = format_html(' data-tone="{}"', tone) if tone else ""
    return format_html(
        '<svg class="spark"{} viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">'
        '<path class="area" d="{} V100 H0 Z"/><path d="{}"/></svg>',
        attribute,
        line,
        line,
    )


@register.simple_tag
def lines(*courses: str) -> SafeString:
    """The lines of a chart, the first with its area, above a grid of four."""
    grid = format_html_join(
        "", '<path class="grid" d="M0 {} H100"/>', [(height,) for height in (0, 33.3, 66.7, 100)]
    )
    styles = ("", "second")
    drawn = [_path(values(course, POINTS)) for course in courses]
    area = format_html('<path class="area" d="{} V100 H0 Z"/>', drawn[0])
    paths = format_html_join("", '<path class="{}" d="{}"/>', zip(styles, drawn, strict=False))
    return grid + area + paths


def values(course: str, points: int) -> list[float]:
    """Values from 0 to 1 of a course, which is `from to noise seed`, each in percent."""
    first, last, noise, seed = (int(part) for part in course.split())
    chance = Random(seed)
    found = []
    drift = 0.0
    for index in range(points):
        drift = 0.7 * drift + chance.uniform(-noise, noise) * 0.6
        value = first + (last - first) * index / (points - 1) + drift
        found.append(min(1.0, max(0.0, value / 100)))
    return found


def _path(course: list[float]) -> str:
    step = 100 / (len(course) - 1)
    return "M" + " L".join(
        f"{index * step:.1f} {100 - 100 * value:.1f}" for index, value in enumerate(course)
    )
