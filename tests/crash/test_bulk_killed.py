"""Bulk publishing and SIGKILL: a broker is killed while a client stages and commits batches, and the client
repeats what was not answered, as Spark does. Every row of every batch is there once."""

from __future__ import annotations

import http.client
import os
import random
import threading
import time
from collections import Counter

import pytest

from tests.support.broker_process import BrokerProcess, Reply, StartBroker
from tests.support.polling import poll
from tests.support.staged_rows import MEDIA_TYPE, stage_id, to

KILLS = int(os.environ.get("BULK_KILLS", "2"))
#: rows and bytes of a small batch, and of one that does not fit in one batch of the journal
SMALL, LARGE = (200, 20), (36, 512 * 1024)
STAGES, PARTS = 2, 3

Row = tuple[str, bytes]


class Killer(threading.Thread):
    """Kills a broker again and again, and starts it again."""

    def __init__(self, broker: BrokerProcess, kills: int) -> None:
        super().__init__()
        self._broker = broker
        self._kills = kills

    def run(self) -> None:
        for _ in range(self._kills):
            time.sleep(random.uniform(0.05, 0.8))
            self._broker.kill()
            self._broker.start()


class Driver:
    """A client that writes one batch after the other, each until it was answered."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self.batches = 0
        self.sent: list[str] = []
        self.seen: Counter[str] = Counter()

    def write_batch(self) -> None:
        """Write the next batch; sometimes it is repeated although it was answered."""
        queue, (count, size) = ("large", LARGE) if self.batches % 3 == 1 else ("small", SMALL)
        names = [f"{self.batches}:{row}:" for row in range(count)]
        rows = [(queue, name.encode().ljust(size, b"x")) for name in names]
        while not self._attempt(rows):
            random.shuffle(rows)  # a batch that is computed again has its rows in another order
        if random.random() < 0.3:
            random.shuffle(rows)
            poll(lambda: self._attempt(rows, repeated=True))
        self.sent += names
        self.batches += 1

    def _attempt(self, rows: list[Row], *, repeated: bool = False) -> bool:
        """Stage rows and commit them, as often as it takes; False when stages were lost."""
        share = -(-len(rows) // STAGES)
        stages = [self._stage(rows[start : start + share]) for start in range(0, len(rows), share)]
        body = {"producer": "query", "batch": self.batches, "stages": stages}
        while True:
            reply = self._request("/api/v1/bulk/commit", json_body=body)
            if reply is None or reply.status == 503:
                continue
            self.seen[f"commit {reply.status}"] += 1
            if reply.status != 200:
                assert reply.status in (404, 409), reply.body
                return False
            answer = reply.json()
            self.seen["duplicate"] += answer["duplicate"]
            assert answer["duplicate"] or answer["published"] == len(rows)
            assert answer["duplicate"] or not repeated
            return True

    def _stage(self, rows: list[Row]) -> dict[str, object]:
        """Stage rows in parts, each until it was answered."""
        id, share = stage_id(), -(-len(rows) // PARTS)
        for seq in range(PARTS):
            part = rows[seq * share : (seq + 1) * share]
            content = to(f"/queue/{part[0][0]}", *(body for _, body in part), content_type="text/plain")
            path = f"/api/v1/bulk/stage?id={id}&seq={seq}"
            while (reply := self._request(path, content)) is None or reply.status == 503:
                self.seen["stage repeated"] += 1
            assert reply.status == 200, reply.body
        return {"id": id, "parts": PARTS, "rows": len(rows)}

    def _request(self, path: str, body: bytes | None = None, **more: object) -> Reply | None:
        """None when the broker was gone before it answered."""
        headers = {"content_type": MEDIA_TYPE} if body is not None else {}
        try:
            return self._broker.request("POST", path, body, **headers, **more)  # type: ignore[arg-type]
        except (OSError, http.client.HTTPException):
            self.seen["no answer"] += 1
            time.sleep(0.02)
            return None


def names_in(broker: BrokerProcess, queue: str) -> list[str]:
    """The beginnings of the bodies of all messages."""
    found: list[str] = []
    after = ""
    while True:
        page = broker.request("GET", f"/api/v1/queues/{queue}/messages?limit=500&fields=body{after}").json()
        found += [item["body"].rpartition(":")[0] + ":" for item in page.get("items", [])]
        if not page.get("next"):
            return found
        after = f"&after={page['next']}"


@pytest.mark.slow
def test_every_row_is_published_once_whenever_the_broker_is_killed(start_broker: StartBroker) -> None:
    broker = start_broker()
    driver, killer = Driver(broker), Killer(broker, KILLS)
    killer.start()
    while killer.is_alive() or driver.batches < 3:
        driver.write_batch()
    killer.join()
    found = names_in(broker, "small") + names_in(broker, "large")
    assert Counter(found) == Counter(driver.sent)
    assert driver.seen["no answer"], driver.seen
    poll(lambda: not list((broker.data / "bulk").glob("*.commit")))
