"""Text that is marked for translation: of templates and Python in one catalogue, of islands in the other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_python
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[2]
LOCALES = ROOT / "locale"
LANGUAGES = sorted(path.name for path in LOCALES.iterdir() if path.is_dir())

# One sentence, or the sentence for one and that for many.
Text = str | tuple[str, str]

_PYTHON = (
    "broker_app/base",
    "broker_app/net",
    "broker_app/web",
    "broker_app/telemetry",
    "broker_app/features",
    "mom_site",
)
_MARKS = dict.fromkeys(("gettext", "gettext_lazy", "_", "ngettext", "ngettext_lazy"))

# Django makes of `{% translate "Queue" %}` a call `gettext(u'Queue')`, and of everything else noise.
_LITERAL = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CALL = re.compile(rf"\b(?:gettext|ngettext|_)\(({_LITERAL})(?:, ({_LITERAL}), count)?\)")

_LITERALS = r"""\s*("(?:[^"\\\n]|\\.)*"(?:\s*\+\s*"(?:[^"\\\n]|\\.)*")*)\s*"""
_GETTEXT_CALL = re.compile(rf"(?<![#.\w])gettext\({_LITERALS}[,)]")
_NGETTEXT_CALL = re.compile(rf"\bngettext\({_LITERALS},{_LITERALS},")
# A sentence that is put together at run time is in no catalogue.
_UNREADABLE = re.compile(rf"(?<![#.\w])gettext\((?!{_LITERALS}[,)])|\bngettext\((?!{_LITERALS},{_LITERALS},)")


def catalogue(domain: str) -> Catalog:
    """All that is marked for `django` (templates, Python) or for `djangojs` (islands), untranslated."""
    catalog = Catalog(domain=domain, charset="utf-8")
    for text in _in_pages() if domain == "django" else _in_islands():
        catalog.add(text)
    return catalog


def template_files() -> list[Path]:
    return sorted((ROOT / "templates").rglob("*.html"))


def python_files() -> list[Path]:
    return sorted(path for folder in _PYTHON for path in (ROOT / folder).rglob("*.py"))


def island_files() -> list[Path]:
    return sorted((ROOT / "frontend" / "src").rglob("*.ts"))


def _in_pages() -> Iterator[Text]:
    for path in template_files():
        for one, many in _CALL.findall(templatize(path.read_text(encoding="utf-8"), origin=str(path))):
            yield (ast.literal_eval(one), ast.literal_eval(many)) if many else ast.literal_eval(one)
    for path in python_files():
        for _, function, text, _ in extract_python(BytesIO(path.read_bytes()), _MARKS, [], {}):
            if function in ("ngettext", "ngettext_lazy"):
                yield text[0], text[1]
            else:
                yield text if isinstance(text, str) else text[0]


def _in_islands() -> Iterator[Text]:
    for path in island_files():
        if path.name == "gettext.ts":  # where they are defined, and shown by an example
            continue
        source = path.read_text(encoding="utf-8")
        if unreadable := _UNREADABLE.search(source):
            line = source.count("\n", 0, unreadable.start()) + 1
            raise ValueError(f"{path}:{line}: the argument has to be a literal")
        for text in _GETTEXT_CALL.findall(source):
            yield _plain(text)
        for one, many in _NGETTEXT_CALL.findall(source):
            yield _plain(one), _plain(many)


def _plain(literals: str) -> str:
    """`"one " + "sentence"` as the text that a browser makes of it."""
    text: str = ast.literal_eval(re.sub(r'"\s*\+\s*"', "", literals))
    return text
