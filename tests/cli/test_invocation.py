from importlib import metadata

import pytest

from broker_app.cli.invocation import options_first
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
def test_options_that_are_accepted_anywhere_go_first(given: list[str], sorted_: list[str]) -> None:
    assert options_first(given) == sorted_


def test_version(command_line: CommandLine) -> None:
    assert command_line("--version").out == f"mom {metadata.version('mom')}\n"
