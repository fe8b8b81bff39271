"""The command `mom` for shells that tests start, forked instead of started.

Documents are run as they stand, with dozens of commands: an interpreter of its own computes for half a second
for each of them, before it does anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from tests.support import mom_command
from tests.support.forked import Forked
from tests.support.temporary import temporary_directory

_LARGEST = 1024 * 1024


@contextlib.contextmanager
def mom_in_path() -> Iterator[Path]:
    """The directory of a command `mom`, to be put into a PATH for the length of a `with` block."""
    with temporary_directory("mom") as folder, _listener(Path(folder) / "socket") as listener:
        command = Path(folder) / "mom"
        program = [sys.executable, "-IS", mom_command.__file__, listener.getsockname()]
        command.write_text(f'#!/bin/sh\nexec {shlex.join(program)} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        thread = Thread(target=_serve, args=[listener], daemon=True)
        thread.start()
        try:
            yield command.parent
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _listener(address: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(address))
    listener.listen()
    return listener


def _serve(listener: socket.socket) -> None:
    """Fork for each program that connects, also several at a time: they may be ends of a pipe."""
    running: list[Thread] = []
    with contextlib.suppress(OSError):  # it was shut down
        while True:
            running.append(Thread(target=_answer, args=[listener.accept()[0]]))
            running[-1].start()
    for one in running:
        one.join()


def _answer(client: socket.socket) -> None:
    """Run `mom` as a program asks, and send it the exit code."""
    with client:
        message, files, _, _ = socket.recv_fds(client, _LARGEST, 3)
        order = json.loads(message)
        words = [sys.executable, "-m", "broker_app.cli", *order["arguments"]]
        place = {"cwd": order["cwd"], "env": order["environment"]}
        with Forked(words, stdin=files[0], stdout=files[1], stderr=files[2], **place) as process:
            for file in files:
                os.close(file)
            client.send(str(process.wait()).encode())
