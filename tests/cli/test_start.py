"""The command line starts at once."""

import subprocess
import sys
import time

from tests.cli.conftest import CommandLine

_START_S = 0.3
_TRIES = 10
#: what may only be loaded by the command that needs it
_SLOW = ("asyncio", "django", "mom_client", "rich", "ssl", "urllib.request")


def test_start_takes_less_than_it_may(command_line: CommandLine) -> None:
    """The best of some tries, because the machine has other things to do."""
    best = float("inf")
    for _ in range(_TRIES):
        began = time.perf_counter()
        mom = [sys.executable, "-m", "broker_app.cli", "context", "ls"]
        subprocess.run(mom, env=command_line.environment, capture_output=True, check=True)
        best = min(best, time.perf_counter() - began)
        if best < _START_S:
            return
    raise AssertionError(f"`mom context ls` took {best:.2f} s")


def test_nothing_slow_is_loaded_at_the_start(command_line: CommandLine) -> None:
    code = (
        "import sys; from broker_app.cli import main; main._assemble('')\n"
        f"print([name for name in {_SLOW!r} if name in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], env=command_line.environment, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"
