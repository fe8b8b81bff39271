"""The ledger of the storm finds what it is for: losses of order, needless copies, and repeats that are not
marked or not allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import mom_client
from mom_client.stomp.frame import MESSAGE, Frame, Headers
from tests.enhanced_cluster.storm_ledger import Backlog, StormLedger
from tests.support.proxy import proxy
from tests.support.small_node import policy_of, small_node

FIRST, SECOND = "7abc-9def", "7abc-9fff"


def message(number: int, place: int, journal: str = FIRST, *, marked: bool = False) -> mom_client.Message:
    """One that came over the first connection."""
    id = f"01234567-89ab-{journal}-{place:012x}"
    headers = Headers({"message-id": id, "redelivered": str(marked).lower()})
    return mom_client.Message(Frame(MESSAGE, headers, body=b"%d" % number), cast(Any, None), 1)


def ledger_of(*messages: mom_client.Message) -> StormLedger:
    ledger = StormLedger("/queue/a")
    for one in messages:
        ledger.note(one)
    return ledger


def test_what_comes_in_order_from_each_journal_and_is_marked_when_it_comes_again_is_no_fault() -> None:
    again = message(2, 12, marked=True)
    ledger = ledger_of(message(1, 11), message(5, 7, SECOND), message(2, 12), again, message(6, 8, SECOND))
    assert (ledger.all_faults(), ledger.repeats, len(ledger.unmarked)) == ([], 1, 4)


def test_a_message_that_comes_behind_a_later_one_of_its_journal_is_found_unless_it_is_marked() -> None:
    assert ledger_of(message(2, 12), message(1, 11, marked=True)).all_faults() == []
    ledger = ledger_of(message(2, 12), message(1, 11))
    assert ledger.all_faults() == ["1 came behind 2, which is stored behind it"]


def test_in_a_backlog_the_order_of_marked_messages_counts_too_unless_its_connection_broke() -> None:
    backlog = Backlog("/queue/a", mom=cast(Any, None))
    for one in (message(1, 11, marked=True), message(3, 13, marked=True), message(2, 12, marked=True)):
        backlog.note(one)
    over_two = [one._replace(connection=at) for at, one in enumerate(backlog.arrivals)]
    backlog.check_order(over_two)
    assert (backlog.all_faults(), backlog.in_order) == ([], 0)
    backlog.check_order(backlog.arrivals)
    assert backlog.all_faults() == ["2 came behind 3, which is stored behind it"]
    assert backlog.in_order == 3


def test_a_repeat_without_a_mark_is_found_also_from_another_journal() -> None:
    ledger = ledger_of(message(1, 11), message(1, 5, SECOND))
    ledger.unsure.add(1)
    assert ledger.all_faults() == ["1 came again and was not marked"]


def test_a_second_copy_of_a_message_that_was_sent_once_is_found() -> None:
    ledger = ledger_of(message(1, 11), message(1, 5, SECOND, marked=True))
    assert ledger.all_faults() == ["1 is stored 2 times, and its producer has sent it once"]
    ledger.unsure.add(1)
    assert ledger.all_faults() == []


def test_a_copy_that_comes_again_after_its_confirmed_acknowledgement_is_found_and_no_other_copy() -> None:
    ledger = ledger_of(message(1, 11))
    ledger.unsure.add(1)
    ledger.settle(message(1, 11))
    ledger.note(message(1, 5, SECOND, marked=True))
    assert ledger.all_faults() == []
    ledger.note(message(1, 11, marked=True))
    assert ledger.all_faults() == ["1 came again after its acknowledgement was confirmed"]


def test_a_message_that_is_stored_behind_a_later_one_of_its_producer_is_found_if_it_was_sent_once() -> None:
    ledger = ledger_of(message(2, 11), message(1, 12))
    assert ledger.all_faults() == ["1 is stored behind 2"]
    ledger.unsure.add(1)
    assert ledger.all_faults() == []


async def test_a_message_is_surely_sent_once_if_its_receipt_came_over_the_connection_of_its_send(
    tmp_path: Path,
) -> None:
    ledger = StormLedger("/queue/a")
    policy = policy_of(users={"ann": ()}, admins=("ann",))
    async with small_node(tmp_path, policy) as node, proxy(node.node.stomp_port or 0) as network:
        url = f"failover:(stomp://{network.host}:{network.port})?maxReconnectDelay=50"
        async with mom_client.connect(url, login="ann", passcode="ann") as client:
            await ledger.submit(client, 0)
            network.back.hold()
            receipt = ledger.submit(client, 1)
            assert ledger.unsure == {1}
            network.cut()
            network.heal()
            await receipt
            await ledger.submit(client, 2)
    assert ledger.unsure == {1}
