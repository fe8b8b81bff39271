"""The command line starts at once."""

import resource
import subprocess
import sys

from tests.cli.conftest import CommandLine

_START_S = 0.3
_TRIES = 10
#: what may only be loaded by the command that needs it
_SLOW = (
    *("asyncio", "django", "mom_client.client", "mom_client.connection.transport", "rich", "ssl"),
    "urllib.request",
)


def test_start_is_fast(command_line: CommandLine) -> None:
    """Processor time of the best of some tries: other processes delay it, and make caches cold."""
    best = float("inf")
    for _ in range(_TRIES):
        began = _children_s()
        mom = [sys.executable, "-m", "broker_app.cli", "context", "ls"]
        subprocess.run(mom, env=command_line.environment, capture_output=True, check=True)
        best = min(best, _children_s() - began)
        if best < _START_S:
            return
    raise AssertionError(f"`mom context ls` computed for {best:.2f} s")


def _children_s() -> float:
    """Processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_nothing_slow_is_loaded_at_the_start(command_line: CommandLine) -> None:
    code = (
        "import sys; from broker_app.cli import main; main._assemble('')\n"
        f"print([name for name in {_SLOW!r} if name in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], env=command_line.environment, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"
