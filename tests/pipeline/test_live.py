"""A broker is read while it writes, and while it is killed: what was read is what is stored, once and for
ever."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import mom_client.blocking
from broker_app.config import MIB
from mom_client.errors import ClientError
from pyspark_mom.errors import BrokerUnreachable
from pyspark_mom.options import parse
from pyspark_mom.schema import arrow_schema
from pyspark_mom.stream import JournalStreamReader
from tests.conftest import SEED
from tests.pipeline.stage import read_rows
from tests.pipeline.test_brokers import ALL
from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.polling import poll

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "MOM_TEST_CREDENTIAL"
NAMES = ("epoch", "position", "event", "message_position", "body")
Row = tuple[Any, ...]


@pytest.fixture
def nodes(processes: None, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as made:
        yield made


class Traffic:
    """Clients of a node that send numbered messages and consume them, until the node is gone or `stop`."""

    def __init__(self, node: NodeProcess, first: int) -> None:
        #: numbers of messages that the node has confirmed
        self.confirmed: set[int] = set()
        self._node = node
        self._number = first
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(work,)) for work in (self._send, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Callable[[mom_client.blocking.Client], None]) -> None:
        address = f"stomp://127.0.0.1:{self._node.stomp_port}"
        # The node is killed at any moment.
        with (
            contextlib.suppress(ClientError, OSError),
            mom_client.blocking.connect(
                address, login=self._node.user, passcode=self._node.password, reconnect=False
            ) as client,
        ):
            work(client)

    def _send(self, client: mom_client.blocking.Client) -> None:
        while not self._ending.is_set():
            number, self._number = self._number, self._number + 1
            client.send(f"/queue/q{number % 2}", f"{number}")
            self.confirmed.add(number)

    def _consume(self, client: mom_client.blocking.Client) -> None:
        with client.subscribe("/queue/q0") as messages:
            while not self._ending.is_set():
                with contextlib.suppress(TimeoutError):
                    client.ack(messages.get(0.1))

    def stop(self) -> int:
        """Wait until the clients have ended; the next number."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        return self._number


def bodies(rows: list[Row]) -> Counter[int]:
    return Counter(int(row[4]) for row in rows if row[2] == "ENQUEUE")


class Follower:
    """Plans and reads batches of a stream, as Spark does, until `stop`."""

    def __init__(self, given: dict[str, str]) -> None:
        options = parse(
            {"broker": "A", "startingOffsets": "earliest", "credential": SECRET, **given}, streaming=True
        )
        self._make = partial(JournalStreamReader, options, arrow_schema(NAMES))
        self._stream = self._make()
        self.rows: list[Row] = []
        self.batches = 0
        self._offset: dict[str, Any] | None = None
        self._ending = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ending.wait(0.005):
                self._step()
        except Exception as error:
            self._error = error

    def _step(self) -> None:
        with contextlib.suppress(BrokerUnreachable):  # over HTTP, while the node is killed
            if self._offset is None:
                self._offset = self._stream.initialOffset()
            end = self._stream.latestOffset(self._offset, ALL)
            batch: list[Row] = []
            for part in self._stream.partitions(self._offset, end):
                for found in self._stream.read(part):
                    batch += zip(*found.to_pydict().values(), strict=True)
            self.rows += batch
            self.batches += bool(batch)
            self._offset = end

    def stop(self) -> None:
        """Read once more, what is there now."""
        self._ending.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        self._stream.stop()
        self._stream = self._make()  # the former one waits before it asks a node again that was away
        self._step()
        self._stream.stop()


@pytest.mark.parametrize("transport", ["file", "http"])
def test_what_is_read_while_a_broker_is_killed_again_and_again_is_what_is_stored(
    nodes: Nodes, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(os.environ[SEED])
    node = nodes.node("A", segment_bytes=MIB // 4, journal_retention_bytes=1024 * MIB)
    node.start()
    monkeypatch.setenv(SECRET, f"{node.user}:{node.password}")
    given = {"url": node.url if transport == "http" else f"file://{node.data}", "timeoutSeconds": "5"}
    follower = Follower(given)
    confirmed: set[int] = set()
    number = 0
    for _ in range(6):
        traffic, before = Traffic(node, number), follower.batches
        wanted = random.randint(20, 120)
        poll(lambda: len(traffic.confirmed) >= wanted)  # noqa: B023 -- it is called at once
        poll(lambda: follower.batches > before + 1)  # noqa: B023 -- however late the reader begins
        node.kill()
        number = traffic.stop()
        confirmed |= traffic.confirmed
        node.start()
    follower.stop()

    options = parse({"url": f"file://{node.data}", "broker": "A"})
    assert follower.rows == [tuple(row[name] for name in NAMES) for row in read_rows(options, *NAMES)]
    found = bodies(follower.rows)
    assert confirmed <= found.keys() <= set(range(number)) and set(found.values()) == {1}
    assert len({row[0] for row in follower.rows}) > 5, "epochs"


def test_a_stream_of_spark_goes_on_while_the_broker_is_killed(
    spark: SparkSession, nodes: Nodes, tmp_path: Path
) -> None:
    node = nodes.node("A")
    node.start()
    ddl = "epoch int, position bigint, event string, message_position bigint, body binary"
    events = (
        spark.readStream.format("mom")
        .options(url=f"file://{node.data}", broker="A", startingOffsets="earliest")
        .schema(ddl)
        .load()
    )
    query = (
        events.writeStream.format("parquet")
        .options(path=str(tmp_path / "rows"), checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    confirmed: set[int] = set()
    number = 0
    try:
        for _ in range(2):
            traffic = Traffic(node, number)
            poll(lambda: len(traffic.confirmed) > 50)  # noqa: B023 -- it is called at once
            node.kill()
            number = traffic.stop()
            confirmed |= traffic.confirmed
            node.start()
        expected = read_rows(parse({"url": f"file://{node.data}", "broker": "A"}), *NAMES)
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.schema(ddl).parquet(str(tmp_path / "rows")).orderBy("position").collect()
    found = [(row[0], row[1], row[2], row[3], None if row[4] is None else bytes(row[4])) for row in rows]
    assert sorted(found[: len(expected)], key=repr) == sorted(
        (tuple(row[name] for name in NAMES) for row in expected), key=repr
    )
    assert confirmed <= bodies(found).keys() and set(bodies(found).values()) == {1}
