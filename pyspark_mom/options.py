"""Options of a query: checked once, and then one immutable object that Spark carries to its workers.

Options are visible in plans, in progress reports and in files, so they never contain secrets: `credential`
names the environment variable or the file that does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark_mom.errors import InvalidOption
from pyspark_mom.events import EVENT_NAMES, WITH_BODY
from pyspark_mom.offsets import MAX_POSITION
from pyspark_mom.option_types import (
    FILE,
    HTTP,
    Option,
    OptionTable,
    addresses,
    boolean,
    choice,
    credential,
    label,
    number,
)
from pyspark_mom.option_types import values as given_values
from pyspark_mom.patterns import MAX_PATTERN
from pyspark_mom.schema import CONTENTS, EVENTS
from pyspark_mom.tls import TLS_OPTIONS, Tls
from pyspark_mom.tls import check as check_tls

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
#: where to begin or to end: "earliest", "latest", or positions by broker
Where = str | tuple[tuple[str, int | str], ...]

#: schemes of addresses of stores
STORES: Final = ("postgres", "postgresql", "redis", "rediss", "valkey", "valkeys")

_ADDRESS: Final = addresses(*HTTP, *STORES, FILE)

#: the name of the only broker of a query that does not name it
DEFAULT_BROKER: Final = "mom"
_MAX_BROKERS: Final = 256
_MAX_TIMEOUT_S: Final = 600
#: the name of a cursor
CURSOR: Final = re.compile(r"[a-z0-9._:-]{1,100}", re.ASCII)
_RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a query; names of the options, in camel case, are in `NAMES`.

    `starting` and `ending` are where a query begins and ends, `starting_us` and `ending_us` the same as times
    (µs since 1970), which take their place. A limit that is None is none.
    """

    brokers: tuple[tuple[str, str], ...]
    content: str = EVENTS
    destinations: tuple[str, ...] = ()
    events: tuple[str, ...] = EVENT_NAMES
    include_headers: bool = False
    starting: Where = EARLIEST
    ending: Where = LATEST
    starting_us: int | None = None
    ending_us: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    min_partitions: int = 1
    fail_on_data_loss: bool = True
    fail_on_unreachable: bool = True
    cursor: str | None = None
    credential: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_credential: str | None = None
    timeout_s: int = 30

    @property
    def tls(self) -> Tls:
        """The TLS of connections over HTTP."""
        return Tls(self.ca_file, self.cert_file, self.key_file, self.key_credential)

    @property
    def urls(self) -> dict[str, str]:
        """The addresses of the brokers by name."""
        return dict(self.brokers)


def parse(given: Mapping[str, str], *, streaming: bool = False) -> Options:
    """The options of a query. Raises InvalidOption, which names the option."""
    values = dict(given_values(given, NAMES))
    _refuse_both(values, "starting", "starting_us", "startingOffsets", "startingTimestamp")
    _refuse_both(values, "ending", "ending_us", "endingOffsets", "endingTimestamp")
    _refuse_both(values, "max_rows", "max_bytes", "maxRowsPerTrigger", "maxBytesPerTrigger")
    if streaming:
        _refuse_ends(values)
        # As with Kafka: a new stream begins with what comes.
        values = {"starting": LATEST, "fail_on_unreachable": False, **values}
    brokers = _brokers(values)
    if "events" not in values and values.get("content", EVENTS) != EVENTS:
        values["events"] = WITH_BODY
    for option, where in (
        ("startingOffsets", values.get("starting")),
        ("endingOffsets", values.get("ending")),
    ):
        _check_brokers(option, where, brokers)
    _check_cursor(values, brokers)
    check_tls(values)
    return Options(brokers=tuple(sorted(brokers.items())), **values)


def _refuse_ends(values: Mapping[str, Any]) -> None:
    for field, option in (("ending", "endingOffsets"), ("ending_us", "endingTimestamp")):
        if field in values:
            raise InvalidOption(f"{option}: a stream has no end; use it with spark.read, or leave it out")


def _refuse_both(values: Mapping[str, Any], one: str, other: str, option: str, second: str) -> None:
    if other in values and one in values:
        raise InvalidOption(f"{option}: {second} is given, too; use one of them")


def _brokers(values: dict[str, Any]) -> dict[str, str]:
    """Take the options that name brokers out of `values`."""
    url, brokers = values.pop("url", None), values.pop("brokers", None)
    name = values.pop("broker", None)
    if (url is None) == (brokers is None):
        raise InvalidOption(
            "url: the address of the broker is needed, such as https://broker:8000, "
            "file:///var/lib/mom/journal or postgresql://host/database; for several, give brokers, a JSON "
            "object of names and addresses"
        )
    if brokers is None:
        return {name or DEFAULT_BROKER: url}
    if name is not None:
        raise InvalidOption("broker: the names are in brokers; leave it out, or give url")
    return dict(brokers)


def _check_brokers(option: str, where: Where | None, brokers: Mapping[str, str]) -> None:
    if where is None or isinstance(where, str):
        return
    names = {name for name, _ in where}
    if names != set(brokers):
        wrong = sorted(names ^ set(brokers))
        raise InvalidOption(
            f"{option}: names {', '.join(sorted(names)) or 'no broker'}, but the brokers are "
            f"{', '.join(sorted(brokers))}; correct {', '.join(wrong)}"
        )


def _check_cursor(values: Mapping[str, Any], brokers: Mapping[str, str]) -> None:
    if values.get("cursor") is None:
        return
    for url in brokers.values():
        if urlsplit(url).scheme not in HTTP:
            raise InvalidOption(
                f"cursor: {url} cannot take it; only a broker with an address of http or https keeps cursors"
            )


# ---------------------------------------------------------------------------------- types


def _cursor(text: str) -> str:
    if not CURSOR.fullmatch(text):
        raise ValueError("a cursor has a name of 1 to 100 characters: a-z, 0-9, '.', '_', ':', '-'")
    return text


def _list(text: str) -> tuple[str, ...]:
    """The elements of a JSON array, or of a list with commas."""
    if text.startswith("["):
        found = _json(text)
        if not all(isinstance(each, str) for each in found):
            raise ValueError("the JSON array has an element that is not a string")
    else:
        found = [each.strip() for each in text.split(",")]
    if not found or not all(found):
        raise ValueError("an element of the list is empty")
    return tuple(dict.fromkeys(found))


def _patterns(text: str) -> tuple[str, ...]:
    found = _list(text)
    for pattern in found:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"a pattern has {len(pattern)} characters; at most {MAX_PATTERN} are allowed")
    return found


def _events(text: str) -> tuple[str, ...]:
    found = tuple(event.upper() for event in _list(text))
    for event in found:
        if event not in EVENT_NAMES:
            raise ValueError(f"{event!r} is not one of {', '.join(EVENT_NAMES)}")
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from None


def _object(text: str) -> dict[str, Any]:
    found = _json(text)
    if not isinstance(found, dict) or not 1 <= len(found) <= _MAX_BROKERS:
        raise ValueError(f"a JSON object with the names of 1 to {_MAX_BROKERS} brokers is needed")
    for name in found:
        label(name)
    return found


def _addresses(text: str) -> tuple[tuple[str, str], ...]:
    found = _object(text)
    for name, url in found.items():
        if not isinstance(url, str):
            raise ValueError(f"the address of {name} is not a string")
        try:
            found[name] = _ADDRESS(url)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return tuple(found.items())


def _where(text: str) -> Where:
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    return tuple((name, _position(name, value)) for name, value in sorted(_object(text).items()))


def _position(name: str, value: object) -> int | str:
    if isinstance(value, dict):  # as in a checkpoint
        value = value.get("pos")
    if value in (EARLIEST, LATEST):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_POSITION:
        raise ValueError(
            f"the position of {name} is neither a number from 0 to 2^63 - 1, earliest nor latest"
        )
    return value


def _time_us(text: str) -> int:
    """A time as µs since 1970."""
    if re.fullmatch(r"\d{1,15}", text, re.ASCII):
        return int(text) * 1000
    if not _RFC_3339.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is neither like 2026-11-21T03:00:00Z nor milliseconds since 1970")
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)


#: by the names of the options
NAMES: Final[OptionTable] = {
    "url": Option(
        "url",
        _ADDRESS,
        "",
        "address of the journal; of a broker and its [mirrors](mirrors.md) over HTTP, all of theirs: "
        "`https://a:8000,https://b:8000`, or `failover:(…)`. That of the active "
        "one is used",
    ),
    "brokers": Option(
        "brokers", _addresses, "", "several brokers, instead of `url`: a JSON object of names and addresses"
    ),
    "broker": Option("broker", label, "`mom`", "name of the broker, for the column `broker` and for offsets"),
    "credential": Option(
        "credential",
        credential,
        "",
        "environment variable (in capitals, set before Spark starts) or file that contains a token or "
        "`USER:PASSWORD`. Options and addresses are visible in plans, so secrets in them are refused",
    ),
    **TLS_OPTIONS,
    "content": Option(
        "content",
        choice(*CONTENTS),
        "`events`",
        "`messages`: only `ENQUEUE` and `RECEIVE`, with the column `body`",
    ),
    "includeHeaders": Option("include_headers", boolean, "`false`", "the column `headers`"),
    "destinations": Option(
        "destinations",
        _patterns,
        "all",
        "list of patterns: `orders.*` one level, `orders.>` all below; `/queue/orders` of that kind alone",
    ),
    "events": Option("events", _events, "all", "list of events"),
    "startingOffsets": Option(
        "starting",
        _where,
        "`earliest` (streams: `latest`)",
        "where a new query begins; or a JSON object with a position for each broker",
    ),
    "endingOffsets": Option(
        "ending", _where, "`latest`", "where a query ends, in the same way; a stream has no end"
    ),
    "startingTimestamp": Option(
        "starting_us", _time_us, "", "the same as a time: RFC 3339, or milliseconds since 1970"
    ),
    "endingTimestamp": Option("ending_us", _time_us, "", "likewise"),
    "maxRowsPerTrigger": Option(
        "max_rows",
        number(1, MAX_POSITION),
        "",
        "size of a batch of a stream in records of the journal (an acknowledgement of several messages is "
        "one). Brokers share it in proportion to what waits",
    ),
    "maxBytesPerTrigger": Option("max_bytes", number(1, MAX_POSITION), "", "the same in stored bytes, about"),
    "minPartitions": Option(
        "min_partitions",
        number(1, 10_000),
        "1",
        "at least so many tasks; a task reads 250,000 records at most",
    ),
    "failOnDataLoss": Option(
        "fail_on_data_loss",
        boolean,
        "`true`",
        "an error when positions that were to be read are gone; `false` leaves them out and logs it",
    ),
    "failOnUnreachable": Option(
        "fail_on_unreachable",
        boolean,
        "`true` (streams: `false`)",
        "an error when one of several brokers cannot be reached; `false` reads the others and tries again",
    ),
    "cursor": Option(
        "cursor",
        _cursor,
        "",
        "name under which brokers (`https`) keep their journal for this stream and show its lag; see [the "
        "protocol](protocol.md#reading-the-journal)",
    ),
    "timeoutSeconds": Option("timeout_s", number(1, _MAX_TIMEOUT_S), "30", "longest time without an answer"),
}
assert {option.field for option in NAMES.values()} - {"url", "broker"} == {
    field.name for field in fields(Options)
}
