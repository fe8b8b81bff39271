"""Credit and the start of a replay by the header names of other brokers."""

import pytest

from broker_app.base.refused import Refused
from broker_app.net.stomp.headers import UNBOUNDED_CREDIT, credit, start


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 100),
        ({"credit": "7"}, 7),
        ({"prefetch-count": "0"}, UNBOUNDED_CREDIT),
        ({"activemq.prefetchSize": "3"}, 3),
        ({"consumer-window-size": "-1"}, UNBOUNDED_CREDIT),
        ({"consumer-window-size": "0"}, 1),
        ({"consumer-window-size": "10240"}, 10),
        ({"consumer-window-size": "999999999999"}, 5_000),
        ({"credit": "2", "consumer-window-size": "10240"}, 2),
        ({"credit": "5,0"}, 5),
        ({"credit": "0,10240"}, 10),
        ({"credit": "5,10240,true"}, 10),
        ({"credit": "0,0"}, 1),
        ({"credit": "9999999,0"}, 5_000),
    ],
)
def test_credit_is_accepted_under_every_name(headers: dict[str, str], expected: int) -> None:
    assert credit(headers, 100, 5_000) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ""),
        ({"from": "seq:7", "x-stream-offset": "first"}, "seq:7"),
        ({"activemq.retroactive": "true"}, "first"),
        ({"activemq.retroactive": "false"}, ""),
        ({"x-stream-offset": "first"}, "first"),
        ({"x-stream-offset": "next"}, "now"),
        ({"x-stream-offset": "offset=12"}, "seq:12"),
        ({"x-stream-offset": "timestamp=1900000000000"}, "time:1900000000000"),
    ],
)
def test_a_replay_begins_where_each_name_says(headers: dict[str, str], expected: str) -> None:
    assert start(headers) == expected


def test_a_window_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(Refused, match="consumer-window-size"):
        credit({"consumer-window-size": "-2"}, 100, 5_000)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *((value, "invalid") for value in ("5,", "a,0", "5,0,1", "1,2,true,4")),
        ("5,0,false", "unsupported"),
    ],
)
def test_a_credit_of_two_numbers_that_is_none_is_refused(value: str, code: str) -> None:
    with pytest.raises(Refused, match="header credit is ") as refused:
        credit({"credit": value}, 100, 5_000)
    assert refused.value.code == code
