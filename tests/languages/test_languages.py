"""All texts of the console are marked for translation and translated."""

import re

import pytest
from babel.messages.catalog import Message

from tests.languages import unmarked
from tests.languages.catalogues import DOMAINS, read
from tests.languages.marked import LANGUAGES, ROOT, catalogue, island_files, template_files

#: pages only in English: problems of the API, its description, and the style page
ENGLISH = {"problems.html", "docs.html", "style.html"}
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}|%[sd]")


def test_every_text_of_templates_is_marked() -> None:
    paths = [path for path in template_files() if path.name not in ENGLISH]
    assert list(map(str, (found for path in paths for found in unmarked.in_template(path)))) == []


def test_every_text_of_islands_is_marked() -> None:
    assert list(map(str, (found for path in island_files() for found in unmarked.in_islands(path)))) == []


def test_every_text_of_the_console_code_is_marked() -> None:
    paths = sorted((ROOT / "broker_app" / "web" / "console").rglob("*.py"))
    assert list(map(str, (found for path in paths for found in unmarked.in_python(path)))) == []


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_marked_is_translated(language: str, domain: str) -> None:
    translated = {message.id: message for message in read(language, domain) if message.id}
    marked = {message.id for message in catalogue(domain) if message.id}
    missing = [str(id) for id in marked if id not in translated or not whole(translated[id])]
    assert missing == [], "make messages brings them into locale/"
    assert set(translated) - marked == set(), "make messages takes away what is no more"


def whole(message: Message) -> bool:
    """Translated in all its forms, by a person, with the same values in it."""
    texts = [message.string] if isinstance(message.string, str) else list(message.string or ())
    most = message.id if isinstance(message.id, str) else message.id[-1]
    if message.fuzzy or not all(texts) or not texts:
        return False
    return set(PLACEHOLDER.findall(texts[-1])) == set(PLACEHOLDER.findall(most))
