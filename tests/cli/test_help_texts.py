"""Help as it is shown: brackets of the texts stay, and paragraphs are as wide as the terminal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text

from broker_app.base.articles import with_article
from broker_app.cli import main
from broker_app.cli.base.help_texts import prepare
from tests.cli.conftest import CommandLine

WORDS = re.compile(r"[^\s│]+")


def help_of(command: Any) -> Iterator[str]:
    """The help of a command and its options, and of all its subcommands."""
    for one in (command, *command.params):
        yield inspect.cleandoc(getattr(one, "help", None) or "")
    for each in getattr(command, "commands", {}).values():
        yield from help_of(each)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("pipeline",), "`pip install 'mom-broker[pipeline]'`"),
        (("rule", "create"), "effect allow, or deny users only these users"),
        (("alert", "silence"), "0 ends the silence [default: 1 h]"),
    ],
)
def test_help_shows_the_text_as_it_was_written(
    command_line: CommandLine, words: tuple[str, ...], shown: str
) -> None:
    printed = command_line(*words, "--help").out
    assert shown in " ".join(WORDS.findall(printed))


def test_paragraphs_are_as_wide_as_the_terminal(command_line: CommandLine) -> None:
    printed = command_line("pipeline", "--help", environment={"COLUMNS": "150"}).out
    assert "`doctor` shows whether both are there and work together; after" in printed


def test_articles_fit_the_nouns_in_all_help_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "app", typer.Typer())
    main._assemble("")
    texts = help_of(typer.main.get_command(main.app))
    found = {words.group() for text in texts for words in re.finditer(r"\b[Aa]n? ([a-z]+)\b", text)}
    assert "a user" in found and "an alert" in found
    assert [words for words in found if with_article(words.split()[1]) != words.lower()] == []


def test_no_help_text_loses_a_word_to_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "app", typer.Typer())
    main._assemble("")
    command = typer.main.get_command(main.app)
    written = [text.replace("\b", "").split() for text in help_of(command)]
    prepare(command)
    shown = [Text.from_markup(text).plain.split() for text in help_of(command)]
    assert shown == written
    assert sum("[" in word for words in written for word in words) > 0
