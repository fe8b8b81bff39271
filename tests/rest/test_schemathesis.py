"""The description of the interface against the interface: random requests, right and wrong ones."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import uvicorn
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from broker_app.net.rest import RestLimits, openapi
from tests.rest.conftest import Rest
from tests.support.described import check, operations
from tests.support.samples import sample
from tests.support.strangers import ignored_auth

schema = schemathesis.openapi.from_dict(openapi.document())
# Event streams have no end; test_events.py, test_figures.py and test_tail.py read them.
finite = schema.exclude(operation_id=["stream_events", "stream_statistics", "tail_queue", "tail_topic"])

CHECKS = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.unsupported_method,
    ignored_auth,
)
HEADERS = {"Authorization": "Bearer mom_alice"}
#: for each operation; `make fuzz` asks for more
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2"))
OPERATIONS = operations(finite)


@schemathesis.serializer("application/x-ndjson")
def as_lines(context: schemathesis.SerializationContext, value: object) -> bytes:
    return value.encode() if isinstance(value, str) else b""


@schemathesis.serializer("application/vnd.mom.rows")
def as_rows(context: schemathesis.SerializationContext, value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


class Server:
    """A REST API behind uvicorn, on a loop in a thread of its own."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = jobs
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(10)

    async def _serve(self) -> None:
        # Waits are bounded, so that no example takes long.
        rest = Rest(limits=RestLimits(max_wait_s=0.01), jobs=self._jobs)
        await rest.publish("a", *map(str, range(100)))
        self._server = uvicorn.Server(
            uvicorn.Config(rest.rest_api, lifespan="off", log_level="warning", http="httptools")
        )
        self._ready.set()
        await self._server.serve(sockets=[self._socket])
        await rest.jobs.stop()
        await rest.engine.stop()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("jobs"))
    yield server
    server.stop()


@pytest.mark.fuzz
@pytest.mark.parametrize("operation", sample(OPERATIONS, len(OPERATIONS) // 3))
def test_every_answer_is_one_that_is_described(operation: str, server: Server) -> None:
    def validate(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(base_url=server.url, headers=HEADERS, checks=list(CHECKS), timeout=30)

    check(finite, operation, validate, EXAMPLES)
