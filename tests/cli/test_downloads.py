"""Downloads of `mom` from a server that ends early."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from broker_app.cli.base.contexts import BrokerTarget
from broker_app.cli.base.failures import UNREACHABLE, Failure
from broker_app.cli.base.rest import Rest

SENT = b"one\ntwo\n"


class _Half(BaseHTTPRequestHandler):
    """Promises twice as much as it sends."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(2 * len(SENT)))
        self.end_headers()
        self.wfile.write(SENT)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    """The address of the server, which answers once."""
    with HTTPServer(("127.0.0.1", 0), _Half) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        thread.join()


def test_a_download_that_ends_early_is_a_failure_and_not_a_short_file(url: str) -> None:
    into = io.BytesIO()
    with pytest.raises(Failure, match="the reply ended 8 bytes early, so the output is incomplete") as raised:
        Rest(BrokerTarget(url)).download("/audit", into)
    assert raised.value.code == UNREACHABLE
    assert into.getvalue() == SENT
