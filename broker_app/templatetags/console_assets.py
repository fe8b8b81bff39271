"""Template tags for scripts and styles: `{% vite_asset "src/main.ts" %}` and, before it, `{% words %}`."""

import json
import re
from functools import cache
from typing import Any

from django import template
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language

from broker_app.web import languages
from broker_app.web.console.base.causes import cause_in_words
from broker_app.web.console.base.labels import name_of, place_of
from broker_app.web.console_files import BUILT, MANIFEST

register = template.Library()
#: where names of destinations and of variables may be broken
_PARTS = re.compile(r"(?<=[./:_-])")


@register.simple_tag
def vite_asset(source: str) -> SafeString:
    """The tags that load `source`, a path below frontend/, with its imports and styles. A font is loaded
    ahead of the style that names it: text that changes its face would move.

    Raises ImproperlyConfigured when the front end is not built, or has no such entry.
    """
    manifest = _read_manifest() if settings.DEBUG else _manifest()
    if source not in manifest:
        raise ImproperlyConfigured(f"{source} is not an entry of the front-end build")
    entry = manifest[source]
    if entry["file"].endswith(".css"):
        return _stylesheet(entry["file"])
    if entry["file"].endswith(".woff2"):
        href = static(BUILT + entry["file"])
        return format_html('<link rel="preload" as="font" type="font/woff2" crossorigin href="{}">', href)
    tags = [_stylesheet(file) for file in entry.get("css", ())]
    tags += [
        format_html('<link rel="modulepreload" href="{}">', static(BUILT + manifest[name]["file"]))
        for name in entry.get("imports", ())
    ]
    tags.append(format_html('<script type="module" src="{}"></script>', static(BUILT + entry["file"])))
    return mark_safe("\n".join(tags))


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon; what has it needs a label, or a text next to it."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("console/icons.svg"), name
    )


@register.filter
def breakable(name: str) -> SafeString:
    """The name of a destination or variable, breakable behind its marks so that it fits a phone, as in
    `frontend/src/view/name.ts`."""
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in _PARTS.split(name)))


@register.filter
def named(kind: str, key: str) -> str:
    """The name of a resource in a sentence: `{{ one.kind|named:one.key }}`."""
    return name_of(kind, key)


@register.filter
def place(pointer: str) -> str:
    """The place in definitions that a pointer leads to, in words."""
    return place_of(pointer)


@register.filter
def cause(text: str) -> str:
    """A cause of trouble in the language of the page."""
    return cause_in_words(text)


@register.simple_tag
def words() -> SafeString:
    """The tag that loads what islands say in the language of the page; English needs none."""
    language = get_language() or settings.LANGUAGE_CODE
    known = languages.stamp(language)
    if known is None:
        return mark_safe("")
    return format_html('<script defer src="{}"></script>', reverse("words", args=[language, known]))


def _stylesheet(file: str) -> SafeString:
    return format_html('<link rel="stylesheet" href="{}">', static(BUILT + file))


def _read_manifest() -> dict[str, Any]:
    path = finders.find(MANIFEST)
    if path is None:
        raise ImproperlyConfigured("the console is not built: run make build")
    with open(path, encoding="utf-8") as file:
        manifest: dict[str, Any] = json.load(file)
    return manifest


_manifest = cache(_read_manifest)
