"""A receiver that answers every request with `first` and then with `again` for ever, in a thread of its own,
so that its work is not that of the loop under test."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

#: bytes that are written in one go
_BURST = 256 * 1024


class Stranger:
    """`pause_s` is the time between two of `again`; without one they come in bursts."""

    def __init__(self, first: bytes, again: bytes, pause_s: float) -> None:
        self._first = first
        self._again = again if pause_s or not again else again * max(1, _BURST // len(again))
        self._pause_s = pause_s
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20)
            connection.recv(65536)
            connection.sendall(self._first)
            while self._again:
                connection.sendall(self._again)
                time.sleep(self._pause_s)
            connection.recv(1)


@contextlib.contextmanager
def stranger(first: bytes, again: bytes = b"", pause_s: float = 0.0) -> Iterator[Stranger]:
    """A stranger for the length of a `with` block."""
    made = Stranger(first, again, pause_s)
    try:
        yield made
    finally:
        made.close()
