"""Completion by the shell: names of the broker, formats, contexts, settings."""

from pathlib import Path

import pytest

from broker_app.cli import main
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.samples import sample


def completed(mom: CommandLine, words: str) -> set[str]:
    """The completions that the shell is offered for the last of the words."""
    number = len(words.split()) - (not words.endswith(" "))
    asked = {"_MOM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    return set(mom(environment=asked).out.split())


def test_names_of_the_broker_are_completed(mom: CommandLine) -> None:
    assert mom("queue", "create", "orders").code == 0
    assert mom("topic", "create", "prices").code == 0
    assert mom("group", "create", "operators").code == 0
    assert completed(mom, "mom queue show or") == {"orders"}
    assert completed(mom, "mom move orders --to or") == {"orders"}
    assert completed(mom, "mom pub /") >= {"/queue/orders", "/topic/prices"}
    assert completed(mom, "mom topic show p") == {"prices"}
    assert completed(mom, "mom group rm op") == {"operators"}
    assert completed(mom, "mom broker show ") == {"mom"}
    assert completed(mom, "mom alert rule set fl") == {"flapping"}


LOCAL_NAMES = [
    ("mom -o ", {"table", "tsv", "json", "yaml", "ndjson", "id"}),
    ("mom queue create x max_a", {"max_attempts="}),
    ("mom config set cr", {"credit="}),
    ("mom bridge set west ho", {"hostname=", "host="}),
    ("mom up --stomp", {"--stomp-port", "--stomp-tls-port"}),
    ("mom queue show or", set()),
]


@pytest.mark.parametrize(("words", "offered"), sample(LOCAL_NAMES, 2))
def test_local_names_are_completed_without_a_broker(
    command_line: CommandLine, words: str, offered: set[str]
) -> None:
    command_line.environment["MOM_URL"] = "http://127.0.0.1:1"
    assert completed(command_line, words) == offered


@pytest.mark.parametrize("variable", ["COMP_WORDS", "_TYPER_COMPLETE_ARGS"])
def test_only_the_command_whose_words_are_completed_is_loaded(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_MOM_COMPLETE", "complete")
    for typed, needed in (
        ("mom queue show or", "queue"),
        ("mom -o json queue ", "queue"),
        ("mom que", ""),
        ("mom queue", ""),
        ("mom --url ", ""),
    ):
        monkeypatch.setenv(variable, typed)
        assert main._needed([]) == needed, typed


def test_contexts_are_completed(command_line: CommandLine, broker: BrokerProcess, tmp_path: Path) -> None:
    for name, url in (("prod", "https://mom.example.org"), ("lab", broker.url)):
        assert command_line("context", "add", name, "--url", url).code == 0
    assert completed(command_line, "mom context use p") == {"prod"}
    assert completed(command_line, "mom --context l") == {"lab"}
