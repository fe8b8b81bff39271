"""The contrast of each pair of colour roles of tokens.css, as WCAG 2.2 measures it."""

import re
from collections.abc import Iterable, Iterator
from math import cos, radians, sin
from typing import Final, NamedTuple

from tests.docs.design.folder import TOKENS

TEXT: Final = 4.5
#: of borders of controls, icons and lines of charts
GRAPHIC: Final = 3.0

_ROLE = re.compile(r"--([\w-]+): light-dark\((oklch\([^()]+\)), (oklch\([^()]+\))\);")
_ALIAS = re.compile(r"--([\w-]+): var\(--([\w-]+)\);")
_COLOUR = re.compile(r"oklch\(([\d.]+)% ([\d.]+) ([\d.]+)\)")

_GROUNDS = ("ground", "surface", "sunken", "raised", "hover", "chosen")
#: by foreground, the grounds that it stands on, and the least contrast
PAIRS: Final[dict[str, tuple[tuple[str, ...], float]]] = {
    "text": (_GROUNDS, TEXT),
    "dim": (_GROUNDS, TEXT),
    "accent": (_GROUNDS, TEXT),
    "good": ((*_GROUNDS, "good-tint"), TEXT),
    "warn": ((*_GROUNDS, "warn-tint"), TEXT),
    "bad": ((*_GROUNDS, "bad-tint"), TEXT),
    "on-accent": (("accent", "bad"), TEXT),
    "edge": (("ground", "surface", "sunken", "raised"), GRAPHIC),
    "series-1": (("surface",), GRAPHIC),
    "series-2": (("surface",), GRAPHIC),
    "series-3": (("surface",), GRAPHIC),
    "series-4": (("surface",), GRAPHIC),
}


def chroma(colour: str) -> float:
    """How far a colour is from grey."""
    found = _COLOUR.fullmatch(colour)
    assert found is not None, colour
    return float(found[2])


class Measured(NamedTuple):
    """The contrast of a role on a ground, light and dark, and the least that it may be."""

    role: str
    ground: str
    light: float
    dark: float
    least: float


def colours(css: str) -> dict[str, tuple[str, str]]:
    """By role, its colour in the light and in the dark theme."""
    found = {name: (light, dark) for name, light, dark in _ROLE.findall(css)}
    return found | {name: found[other] for name, other in _ALIAS.findall(css) if other in found}


def measured() -> Iterator[Measured]:
    """Every pair of roles that meet on a page."""
    roles = colours(TOKENS.read_text(encoding="utf-8"))
    for role, (grounds, least) in PAIRS.items():
        for ground in grounds:
            light, dark = (contrast(roles[role][theme], roles[ground][theme]) for theme in (0, 1))
            yield Measured(role, ground, light, dark, least)


def table() -> str:
    """The contrasts as a table of the README: a row for each role, with its weakest pair."""
    rows = []
    for role in PAIRS:
        pairs = [pair for pair in measured() if pair.role == role]
        light, dark = (min(pairs, key=lambda pair: pair[theme]) for theme in (2, 3))
        grounds = ", ".join(f"`{pair.ground}`" for pair in pairs)
        rows.append(
            f"| `{role}` | {grounds} | {pairs[0].least} "
            f"| {light.light:.1f} on `{light.ground}` | {dark.dark:.1f} on `{dark.ground}` |"
        )
    head = ["| role | stands on | at least | weakest, light | weakest, dark |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_as_shown(part) for part in _linear_rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear_rgb(colour: str) -> Iterable[float]:
    """Linear sRGB of an `oklch()` (Björn Ottosson, "A perceptual color space for image processing")."""
    match = _COLOUR.fullmatch(colour)
    assert match, colour
    lightness, chroma, hue = float(match[1]) / 100, float(match[2]), radians(float(match[3]))
    a, b = chroma * cos(hue), chroma * sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _as_shown(part: float) -> float:
    """A part of a colour within what a screen can show."""
    return min(1.0, max(0.0, part))
