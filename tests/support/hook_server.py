"""A receiver of webhooks in a thread, for tests of real brokers: it agrees to be called, and keeps the
requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Hook(NamedTuple):
    """A request; the names of `headers` are in lower case."""

    headers: dict[str, str]
    body: bytes


class HookServer(ThreadingHTTPServer):
    """`hooks` are the requests in their order, without handshakes; each is answered with `status`, and not
    before `answers` is set, as it is at first."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.hooks: list[Hook] = []
        self.status = 204
        self.answers = threading.Event()
        self.answers.set()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"

    @property
    def bodies(self) -> list[bytes]:
        with self.lock:
            return [hook.body for hook in self.hooks]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HookServer

    def do_OPTIONS(self) -> None:
        self.send_response(200)
        self.send_header("WebHook-Allowed-Origin", "*")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        with self.server.lock:
            self.server.hooks.append(Hook({k.lower(): v for k, v in self.headers.items()}, body))
        self.server.answers.wait()
        answer = json.dumps({"status": self.server.status}).encode()
        self.send_response(self.server.status)
        if self.server.status != 204:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.server.status != 204:
            self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def hook_server(port: int = 0) -> Iterator[HookServer]:
    """A receiver for the length of a `with` block."""
    server = HookServer(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()
