"""`mom sub --notify`: shows that messages have arrived in a queue, of which nothing is taken."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from broker_app.base.reply_types import Facts
from broker_app.cli.base.failures import FAILED, UNREACHABLE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.rest import Rest, queue_path

_COLUMNS = ("seq", "new", "pending", "more")
#: a broker that sends neither an event nor a ping for so many seconds is gone
_SILENT_S = 45.0
#: seconds between attempts to reconnect, at first and at most
_FIRST_S, _MOST_S = 0.2, 10.0


def show(given: Invocation, queue: str, count: int | None, command: list[str]) -> None:
    """Show notifications until Ctrl-C, or `count` of them. With a command, run it for each one instead, with
    the notification as JSON as its standard input and in place of {}. Raises Failure in the end when one has
    failed."""
    failed = 0
    for number, found in enumerate(_followed(given.rest(), queue, given.output.warn), 1):
        if command:
            code = _run(command, json.dumps(found))
            if code:
                failed += 1
                given.output.warn(
                    f"--exec: {command[0]} ended with {code} for the notification {found['seq']}"
                )
        else:
            given.output.row(_COLUMNS, {**found, "new": len(found["seqs"])})
        if number == count:
            break
    if failed:
        raise Failure(
            FAILED, f"the command failed for {failed} of {count} notifications", fix="see the messages above"
        )


def _position(found: Facts) -> str:
    """The position up to which a notification reports, with the tag of its journal if the broker names it."""
    journal = found.get("journal")
    return f"{journal}-{found['seq']}" if journal else str(found["seq"])


def _followed(rest: Rest, queue: str, warn: Callable[[str], None]) -> Iterator[Facts]:
    """Yield notifications. When the connection breaks it is opened again, and continues behind the last
    one."""
    path, after, delay_s = queue_path(queue, "events"), "0", _FIRST_S
    connected = False
    while True:
        try:
            for data in rest.events(path, _SILENT_S, mode="notify", after=after):
                if not data:  # a ping, or the end of the head
                    connected, delay_s = True, _FIRST_S
                    continue
                found = json.loads(data)
                after = _position(found)
                yield found
        except Failure as failure:
            if failure.code != UNREACHABLE or not connected:
                raise
            warn(f"{failure}; connecting again")
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, _MOST_S)


def _run(command: list[str], notification: str) -> int:
    """Run the command. Return its exit code."""
    words = [word.replace("{}", notification) for word in command]
    sys.stdout.flush()
    try:
        return subprocess.run(words, input=notification.encode(), check=False).returncode
    except OSError as error:
        raise Failure(
            FAILED, f"--exec: {error.strerror}", where=words[0], fix="name an executable program"
        ) from error
