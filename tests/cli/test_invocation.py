from importlib import metadata

import pytest

from broker_app.cli.base.failures import USAGE
from broker_app.cli.base.invocation import options_first
from tests.cli.conftest import CommandLine


@pytest.mark.parametrize(
    ("given", "sorted_"),
    [
        (["queue", "ls", "-o", "json"], ["-o", "json", "queue", "ls"]),
        (["queue", "ls", "--output=json", "-q"], ["--output=json", "-q", "queue", "ls"]),
        (
            ["get", "orders", "--url", "http://b", "-n", "3"],
            ["--url", "http://b", "get", "orders", "-n", "3"],
        ),
        (["pub", "orders", "--", "-q"], ["pub", "orders", "--", "-q"]),
        (["queue", "ls", "-o"], ["-o", "queue", "ls"]),
        ([], []),
    ],
)
def test_global_options_are_moved_first(given: list[str], sorted_: list[str]) -> None:
    assert options_first(given) == sorted_


def test_version(command_line: CommandLine) -> None:
    assert command_line("--version").out == f"mom {metadata.version('mom-broker')}\n"


@pytest.mark.parametrize(
    "arguments", [["queue", "ls", "--colour"], ["queue", "show"], ["queue", "lss"], ["top", "-n", "x"]]
)
def test_errors_of_the_parser_name_the_fix(arguments: list[str], command_line: CommandLine) -> None:
    failed = command_line(*arguments)
    assert failed.code == 2
    assert failed.err.startswith("mom: ") and f"  fix:   see `mom {arguments[0]}" in failed.err, failed.err


def test_a_mistyped_global_option_is_suggested(command_line: CommandLine) -> None:
    """The options of the command alone were searched."""
    refused = command_line("queue", "ls", "--otput", "json")
    assert (refused.code, "no such option: --otput; did you mean --output?" in refused.err) == (USAGE, True)


def test_an_option_that_resembles_none_but_for_its_dashes_has_no_suggestion(
    command_line: CommandLine,
) -> None:
    refused = command_line("pub", "orders", "x", "--ttl", "5")
    assert (refused.code, "did you mean" in refused.err) == (USAGE, False), refused.err
