"""A client of bulk publishing: stages parts, and commits or removes stages, each request until it is
answered."""

from __future__ import annotations

import json
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from pyspark_mom import sink_rows
from pyspark_mom.credentials import Credential
from pyspark_mom.errors import AccessDenied, BrokerUnreachable, MomError, NoRoom, RowsRefused, StagesLost
from pyspark_mom.http_connection import BUSY, DENIED, HttpConnection, Reply
from pyspark_mom.sink_options import DEAD_LETTER, SinkOptions
from pyspark_mom.sink_rows import MEDIA_TYPE, RequestPart

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

_JSON: Final = "application/json"
#: seconds before a request is sent again: first, longest, and longest that a broker may ask for
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _MAX_RETRY_AFTER_S = 0.1, 5.0, 60.0
_NOT_FOUND, _CONFLICT = 404, 409
#: ends the type of the problem of a queue that is full
_QUEUE_FULL: Final = "/queue-full"
#: begins the first refused row in the sentence of a broker
_FIRST_ROW: Final = ". Row "
#: refused rows that an error names
_SHOWN: Final = 5


class Stage(NamedTuple):
    """A complete stage, as a commit names it."""

    id: str
    parts: int
    rows: int


class BulkClient:
    """Talks to the broker of `options`. `clock` and `sleep` are in seconds."""

    def __init__(
        self,
        options: SinkOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._dead_letters = options.on_error == DEAD_LETTER
        self._clock = clock
        self._sleep = sleep
        self._connection = HttpConnection(
            options.url, Credential(options.credential), tls=options.tls, timeout_s=options.timeout_s
        )

    def stage(self, id: str, number: int, part: RequestPart) -> int:
        """Stage a part; the number of its rows that became dead letters. Raises MomError."""
        on_error = "dead_letter" if self._dead_letters else "fail"
        query = urlencode({"id": id, "seq": number, "on_error": on_error})
        reply = self._ask("POST", f"bulk/stage?{query}", part.content, MEDIA_TYPE)
        if not reply.succeeded:
            raise _refused(reply, part.first_row)
        found = reply.json
        dead = int(found.get("dead_letters", 0))
        if dead:
            listed = _listed(found["refused"], part.first_row)
            _log.warning("%d of %d rows become dead letters: %s", dead, part.rows, listed)
        return dead

    def stage_rows(self, batches: Iterable[pa.RecordBatch]) -> Stage:
        """Stage rows under an id of their own, and remove them again when that fails. Raises MomError."""
        id, count, rows = str(uuid.uuid4()), 0, 0
        try:
            for part in sink_rows.parts(
                batches,
                self._options.destination,
                self._options.max_in_flight_bytes,
                dead_letters=self._dead_letters,
            ):
                self.stage(id, count, part)
                count, rows = count + 1, rows + part.rows
        except BaseException:
            if count:
                self.abort([id])
            raise
        return Stage(id, count, rows)

    def commit(self, producer: str, batch: int, stages: Sequence[Stage]) -> bool:
        """Publish all rows of stages as one batch; False if the batch was published before. Raises
        MomError."""
        body = {"producer": producer, "batch": batch, "stages": [stage._asdict() for stage in stages]}
        reply = self._ask("POST", "bulk/commit", json.dumps(body).encode(), _JSON)
        what = f"batch {batch} of {producer} was not published: {reply.detail}"
        if reply.status == _NOT_FOUND or (reply.status == _CONFLICT and reply.json.get("restage")):
            raise StagesLost(what)
        if reply.status == _CONFLICT:
            raise RowsRefused(what)
        if not reply.succeeded:
            raise _refused(reply)
        return not reply.json.get("duplicate", False)

    def abort(self, stages: Sequence[str]) -> None:
        """Remove stages; those that cannot be removed now are removed after an hour."""
        if not stages:
            return
        try:
            self._connection.ask("POST", "bulk/abort", json.dumps({"stages": list(stages)}).encode(), _JSON)
        except MomError as error:
            _log.warning("stages are left to their broker, which removes them after an hour: %s", error)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes, content_type: str) -> Reply:
        """The reply to a request, which is sent again while the broker is away or has no room."""
        deadline, pause = self._clock() + self._options.retry_s, _FIRST_PAUSE_S
        while True:
            wait = pause * random.uniform(0.5, 1.0)
            try:
                reply = self._connection.ask(method, path, body, content_type)
            except BrokerUnreachable:
                if self._clock() + wait > deadline:
                    raise
            else:
                if reply.status not in BUSY:
                    return reply
                if reply.json.get("fits") is False:
                    raise NoRoom(f"{reply.detail}. Spark reads less in each batch with maxRowsPerTrigger")
                wait = max(wait, min(reply.retry_after_s, _MAX_RETRY_AFTER_S))
                if self._clock() + wait > deadline:
                    kind = NoRoom if str(reply.json.get("type")).endswith(_QUEUE_FULL) else BrokerUnreachable
                    raise kind(
                        f"{self._options.url} has not taken the rows for {self._options.retry_s} seconds "
                        f"(retrySeconds): {reply.detail}"
                    )
            self._sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def _refused(reply: Reply, first_row: int = 0) -> MomError:
    """The error of a reply that trying again would not change. `first_row` is the number of the first row of
    the request among those of the task."""
    rows = [error for error in reply.json.get("errors", ()) if "destination" in error]
    what = reply.detail
    if rows:  # the sentence of the broker ends with the first of them
        what = f"{what.partition(_FIRST_ROW)[0]}: {_listed(rows, first_row)}"
    if reply.status in DENIED:
        return AccessDenied(f"{what}. The user of the credential needs the right to send to each destination")
    return RowsRefused(f"{what}. With onError=deadLetter, such rows become dead letters")


def _listed(rows: Sequence[dict[str, Any]], first_row: int) -> str:
    """The first refused rows, as a sentence shows them. Rows of a task are counted from 0."""
    return "; ".join(
        f"row {first_row + int(row['row'])} to {str(row['destination'])[:100]}: {str(row['detail'])[:200]}"
        for row in rows[:_SHOWN]
    )
