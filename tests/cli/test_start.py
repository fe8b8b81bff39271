"""The command line starts at once."""

import resource
import subprocess
import sys

from tests.cli.conftest import CommandLine

_START_S = 0.3
#: the same as a number of starts of an interpreter alone
_STARTS = 9
_TRIES = 10
#: what may only be loaded by the command that needs it
_SLOW = (
    *("asyncio", "django", "mom_client.client", "mom_client.connection.transport", "rich", "ssl"),
    "urllib.request",
)


def test_start_is_fast(command_line: CommandLine) -> None:
    """Processor time of the best of some tries: other processes delay it, and make caches cold. A processor
    that has half of its speed needs twice as long for an interpreter that does nothing, too."""
    best = nothing = float("inf")
    for _ in range(_TRIES):
        nothing = min(nothing, _computed_s(command_line, "-c", "import json, re"))
        best = min(best, _computed_s(command_line, "-m", "broker_app.cli", "context", "ls"))
        if best < max(_START_S, _STARTS * nothing):
            return
    raise AssertionError(
        f"`mom context ls` computed for {best:.2f} s, an interpreter alone for {nothing:.2f} s"
    )


def _computed_s(command_line: CommandLine, *arguments: str) -> float:
    """Processor time of an interpreter with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], env=command_line.environment, capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_nothing_slow_is_loaded_at_the_start(command_line: CommandLine) -> None:
    code = (
        "import sys; from broker_app.cli import main; main._assemble('')\n"
        f"print([name for name in {_SLOW!r} if name in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], env=command_line.environment, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"
