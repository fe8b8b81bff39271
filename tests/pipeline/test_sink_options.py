"""Options and columns of a query that writes are checked before anything is written."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, MapType, StringType, StructType

from pyspark_mom import sink_columns, sink_options
from pyspark_mom.errors import InvalidOption
from pyspark_mom.sink_options import SinkOptions, parse

URL = "http://broker:8000"


#: types that are not written as their name
MAPS = {
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema(**types: str) -> StructType:
    """Columns of these types; a DDL would need Java."""
    found = StructType()
    for name, type_ in types.items():
        found.add(name, MAPS.get(type_, type_))
    return found


def test_all_options_have_a_default_but_the_address() -> None:
    assert parse({"url": URL}) == SinkOptions(url=URL)


def test_options_of_the_query_itself_are_passed_over() -> None:
    given = {"url": URL, "checkpointlocation": "/checkpoint", "queryName": "orders"}
    assert parse(given, streaming=True) == SinkOptions(url=URL)


def test_names_of_options_may_be_written_in_any_case() -> None:
    given = {
        "URL": URL,
        "producerid": "q",
        "BATCHID": "7",
        "onerror": "deadLetter",
        "maxinflightbytes": "65536",
    }
    found = parse(given)
    assert (found.producer, found.batch, found.on_error) == ("q", 7, sink_options.DEAD_LETTER)
    assert found.max_in_flight_bytes == 65536


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({}, "url: the address of the broker is needed"),
        ({"url": "file:///journal"}, "url: 'file' is no scheme"),
        ({"url": "http://u:secret@broker"}, "contains a password"),
        ({"url": URL, "destination": "orders"}, "write /queue/NAME or /topic/NAME"),
        ({"url": URL, "onError": "ignore"}, "onError: 'ignore' is not one of fail, deadLetter"),
        ({"url": URL, "batchId": "1"}, "producerId: is needed where batchId is given"),
        ({"url": URL, "maxInFlightBytes": "1"}, "maxInFlightBytes: '1' is not a whole number from 65536"),
        ({"url": URL, "credential": "mom_token"}, "never the secret itself"),
        ({"url": URL, "destnation": "/queue/a"}, "did you mean destination"),
        ({"url": URL, "startingOffsets": "latest"}, "there is no option 'startingOffsets'"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], refusal: str) -> None:
    with pytest.raises(InvalidOption, match=r"\[INVALID_OPTION\]") as raised:
        parse(given)
    assert refusal in str(raised.value)


def test_a_stream_numbers_its_batches_itself() -> None:
    with pytest.raises(InvalidOption, match="batchId: a stream numbers its batches itself"):
        parse({"url": URL, "producerId": "q", "batchId": "1"}, streaming=True)


ALL = {
    "body": "string", "destination": "string", "headers": "map<string,string>", "content_type": "string",
    "correlation_id": "string", "type": "string", "group": "string", "reply_to": "string",
    "priority": "integer", "persistent": "boolean", "expires_s": "double", "delay_s": "long",
    "deliver_at": "timestamp", "dedup_id": "string",
}  # fmt: skip


@pytest.mark.parametrize(
    "types",
    [
        ALL,
        {"destination": "string", "body": "binary"},
        {"body": "string", "priority": "byte"},
        {"body": "string", "expires_s": "decimal(4,1)"},  # as SQL reads 600.5
    ],
    ids=["all", "binary", "small numbers", "decimals"],
)
def test_known_columns_are_accepted(types: dict[str, str]) -> None:
    sink_columns.check(schema(**types), SinkOptions(url=URL, destination="/queue/a"), overwrite=False)


@pytest.mark.parametrize(
    ("types", "refusal"),
    [
        ({"destination": "string"}, "the column body is missing"),
        ({"body": "string"}, "destination: give the destination of all rows"),
        ({"body": "string", "destnation": "string"}, "no column 'destnation'; did you mean"),
        ({"body": "integer"}, "the column body has the type int; cast it to binary or string"),
        ({"body": "string", "headers": "map<string,int>"}, "cast it to map<string,string>"),
        ({"body": "string", "deliver_at": "timestamp_ntz"}, "cast it to timestamp"),
        ({"body": "string", "priority": "decimal(4,1)"}, "cast it to tinyint or smallint"),
    ],
)
def test_a_wrong_column_is_named(types: dict[str, str], refusal: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        sink_columns.check(schema(**types), SinkOptions(url=URL), overwrite=False)
    assert refusal in str(raised.value)


def test_messages_cannot_be_overwritten() -> None:
    with pytest.raises(InvalidOption, match="use the mode append"):
        sink_columns.check(schema(**ALL), SinkOptions(url=URL), overwrite=True)
