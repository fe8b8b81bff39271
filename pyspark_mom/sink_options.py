"""Options of a query that writes into a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from pyspark_mom.errors import InvalidOption
from pyspark_mom.option_types import (
    HTTP,
    Option,
    OptionTable,
    addresses,
    choice,
    credential,
    label,
    number,
    values,
)
from pyspark_mom.tls import TLS_OPTIONS, Tls
from pyspark_mom.tls import check as check_tls

#: what rows do that the broker refuses
FAIL, DEAD_LETTER = "fail", "deadLetter"
#: bytes of rows that one request may bring: the least, what is usual, and what a broker takes at most
_MIN_BYTES, _BYTES, _MAX_BYTES = 64 * 1024, 4 * 1024 * 1024, 15 * 1024 * 1024
#: options of a streaming query that are not the sink's, but come with them
_OF_SPARK: Final = ("checkpointlocation", "queryname")
_MAX_BATCH: Final = (1 << 53) - 1


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a query that writes; their names, in camel case, are in `NAMES`.

    `destination` is that of rows that name none. `producer` and `batch` name what is written, so that it is
    published once; without them, a stream has the id of its query and the number of each batch, and a batch
    query a name of its own. A broker that does not answer is tried again for `retry_s`.
    """

    url: str
    destination: str | None = None
    producer: str | None = None
    batch: int | None = None
    on_error: str = FAIL
    max_in_flight_bytes: int = _BYTES
    retry_s: int = 300
    credential: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_credential: str | None = None
    timeout_s: int = 30

    @property
    def tls(self) -> Tls:
        """The TLS of connections."""
        return Tls(self.ca_file, self.cert_file, self.key_file, self.key_credential)


def parse(given: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
    """The options of a query. Raises InvalidOption, which names the option."""
    found = dict(values({name: text for name, text in given.items() if name.lower() not in _OF_SPARK}, NAMES))
    if "url" not in found:
        raise InvalidOption("url: the address of the broker is needed, such as https://broker:8000")
    if streaming and "batch" in found:
        raise InvalidOption("batchId: a stream numbers its batches itself; leave it out")
    if "batch" in found and "producer" not in found:
        raise InvalidOption("producerId: is needed where batchId is given: the batch is one of this producer")
    check_tls(found)
    return SinkOptions(**found)


def _destination(text: str) -> str:
    if not text.startswith(("/queue/", "/topic/")):
        raise ValueError(f"{text[:80]!r} is no destination; write /queue/NAME or /topic/NAME")
    return text


#: by the names of the options
NAMES: Final[OptionTable] = {
    "url": Option(
        "url",
        addresses(*HTTP),
        "",
        "address of the broker, http or https; with [mirrors](mirrors.md) all of theirs, as where it is read",
    ),
    "credential": Option(
        "credential",
        credential,
        "",
        "name of an environment variable, or of a file, that contains a token or USER:PASSWORD; never the "
        "secret itself, because options are visible",
    ),
    "destination": Option("destination", _destination, "", "of rows that name none"),
    "onError": Option(
        "on_error",
        choice(FAIL, DEAD_LETTER),
        "`fail`",
        "rows that the broker refuses fail the query; with `deadLetter` they become [dead "
        "letters](protocol.md#bulk-publishing) with the reason, and a warning has their number",
    ),
    "producerId": Option(
        "producer",
        label,
        "the query",
        "name under which batches are counted. A batch query without it is always a new batch",
    ),
    "batchId": Option(
        "batch",
        number(0, _MAX_BATCH),
        "0",
        "number of the batch, for batch queries with a `producerId`; it must grow",
    ),
    "maxInFlightBytes": Option(
        "max_in_flight_bytes",
        number(_MIN_BYTES, _MAX_BYTES),
        f"{_BYTES}",
        "bytes that a task has sent and that are not answered yet",
    ),
    "retrySeconds": Option(
        "retry_s",
        number(0, 86_400),
        "300",
        "how long a broker is tried again that is away or has no room",
    ),
    "timeoutSeconds": Option("timeout_s", number(1, 600), "30", "longest time without an answer"),
    **TLS_OPTIONS,
}
assert {option.field for option in NAMES.values()} == {field.name for field in fields(SinkOptions)}
