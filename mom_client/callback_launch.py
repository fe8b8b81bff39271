"""Finding the callback broker of this machine, and starting it with the first program that needs it.

It is started when the environment has MOM_AUTOCB=1 (or REAUTOCB=1). It goes on after that program has ended,
until it is stopped (`mom --context REcallback broker stop REcallback`, or *Shut down* in its console).
"""

import contextlib
import importlib.util
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .callback_broker import NAME, HostBroker, read_file, state_directory

if sys.platform != "win32":
    import fcntl

__all__ = ["CannotStart", "find", "is_started_automatically"]

log = logging.getLogger("mom_client")

#: seconds for a callback broker to start, for one to answer, and until a wait is logged again
START_S = 60.0
ANSWER_S = 2.0
REPORT_S = 5.0
_POLL_S = 0.05
_TRUE = frozenset(("1", "true", "yes", "on"))
#: variables that name files with which a client verifies brokers, and shows a certificate
_TLS_FILES = ("MOM_CA_FILE", "MOM_CERT_FILE")
#: characters of the log that an error shows
_SHOWN = 1000


class CannotStart(OSError):
    """The callback broker does not start; the text has the reason."""


def is_started_automatically() -> bool:
    """True if the environment asks for a callback broker to be started."""
    return any(os.environ.get(name, "").lower() in _TRUE for name in ("MOM_AUTOCB", "REAUTOCB"))


def find() -> HostBroker | None:
    """The callback broker that runs on this machine for this user; blocks while it starts. None if none runs
    and none is started automatically. Raises CannotStart."""
    running = _running()
    if running is not None or not is_started_automatically():
        return running
    try:
        state_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock():
            return _running() or _start()
    except OSError as error:
        if isinstance(error, CannotStart):
            raise
        raise CannotStart(f"the callback broker cannot be started: {error}") from error


def _running() -> HostBroker | None:
    """The callback broker of the file, if it listens."""
    broker = read_file()
    if broker is None:
        return None
    host, _, port = broker.stomp.rpartition("//")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, ValueError):
        return None
    return broker


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Let one program at a time start a callback broker."""
    with (state_directory() / "start.lock").open("w") as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("another program is starting the callback broker; waiting until it listens")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start() -> HostBroker:
    log_file = state_directory() / "broker.log"
    with _opened(log_file) as output:
        process = subprocess.Popen(
            [*_command(), "broker", "run", "-s", NAME, "-r", "-2"],
            cwd=state_directory(),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    log.info(
        "starting the callback broker of this machine; waiting up to %g s until it listens; its log is %s",
        *(START_S, log_file),
    )
    return _wait_until_it_listens(process, log_file)


def _wait_until_it_listens(process: subprocess.Popen[bytes], log_file: Path) -> HostBroker:
    began = time.monotonic()
    report_at = began + REPORT_S
    while (now := time.monotonic()) < began + START_S:
        broker = _running()
        if broker is not None:
            log.info("the callback broker listens at %s, after %.1f s", broker.stomp, now - began)
            return broker
        if process.poll() is not None:
            raise CannotStart(f"the callback broker ended with {process.returncode}:\n{_end_of(log_file)}")
        if now >= report_at:
            log.info(
                "still waiting for the callback broker, for %.0f s; its log is %s", now - began, log_file
            )
            report_at += REPORT_S
        time.sleep(_POLL_S)
    raise CannotStart(f"the callback broker did not start within {START_S:g} s; its log is {log_file}")


def _opened(log_file: Path) -> IO[bytes]:
    return open(os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _end_of(log_file: Path) -> str:
    return log_file.read_text(encoding="utf-8", errors="replace")[-_SHOWN:].strip()


def _command() -> list[str]:
    if importlib.util.find_spec("broker_app") is not None:
        return [sys.executable, "-m", "broker_app.cli"]
    command = shutil.which("mom")
    if command is None:
        raise CannotStart("there is no command mom to start the callback broker with: install mom-broker")
    return [command]


def _environment() -> dict[str, str]:
    """The environment without settings of this program's own broker, and without its secrets; with the files
    that TLS needs, also when their paths are relative: the callback broker runs in another directory."""
    ours = ("MOM_", "DJANGO_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    tls = {name: str(Path(os.environ[name]).absolute()) for name in _TLS_FILES if os.environ.get(name)}
    return {**kept, **tls}
