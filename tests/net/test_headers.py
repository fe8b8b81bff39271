"""Credit by the header names of other brokers."""

import pytest

from broker_app.core.errors import Refused
from broker_app.net.stomp.headers import UNBOUNDED_CREDIT, credit


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
    ],
)
def test_credit_is_accepted_under_every_name(headers: dict[str, str], expected: int) -> None:
    assert credit(headers, 100, 5_000) == expected


def test_a_window_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(Refused, match="consumer-window-size"):
        credit({"consumer-window-size": "-2"}, 100, 5_000)
