import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import OVERHEAD_BYTES
from tests.core.stage import Client, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage(
        transactions_per_peer=2, commands_per_transaction=5, bytes_per_transaction=5 * OVERHEAD_BYTES
    )


@pytest.fixture
def client(stage: Stage) -> Client:
    """Holds the messages 1, 2 and 3 of /queue/in with the tags 1, 2 and 3; the transaction t is open."""
    stage.decide(stage.client().sending("/queue/in", b"1", b"2", b"3"))
    client = stage.client()
    client.subscribe("/queue/in", c.CLIENT)
    client.take()
    client.do(c.Begin(client.peer, "t"))
    return client


def enlist(client: Client, command: c.Publish | c.Settle | c.Return, name: str = "t") -> None:
    client.do(c.Enlist(client.peer, name, command))


def commit(client: Client, name: str = "t") -> None:
    client.do(c.Commit(client.peer, name))


def out(client: Client, *bodies: bytes) -> c.Publish:
    return client.sending("/queue/out", *bodies)


def depth(client: Client) -> int:
    queue = client.stage.queues.get("/queue/out")
    return queue.depth if queue else 0


def test_nothing_happens_before_the_commit_and_everything_at_it(client: Client) -> None:
    enlist(client, out(client, b"a", b"b"))
    enlist(client, c.Settle(client.peer, [1]))
    enlist(client, c.Return(client.peer, [2], dead_reason="REJECTED"))
    assert (depth(client), client.tags) == (0, [1, 2, 3])
    commit(client)
    assert (depth(client), client.tags) == (2, [3])
    assert client.stage.queue("/queue/in.dead").depth == 1


def test_a_commit_is_one_batch(client: Client) -> None:
    before = len(client.stage.batches)
    enlist(client, out(client, b"a"))
    enlist(client, c.Settle(client.peer, [3], cumulative=True))
    commit(client)
    assert len(client.stage.batches) == before + 1


def test_an_aborted_transaction_leaves_nothing(client: Client) -> None:
    enlist(client, out(client, b"a"))
    enlist(client, c.Settle(client.peer, [1]))
    client.do(c.Abort(client.peer, "t"))
    assert (depth(client), client.tags) == (0, [1, 2, 3])
    with pytest.raises(Refused, match="no open transaction 't'"):
        commit(client)


def test_disconnecting_aborts(client: Client) -> None:
    enlist(client, out(client, b"a"))
    enlist(client, c.Settle(client.peer, [1]))
    client.disconnect()
    assert depth(client) == 0
    assert client.stage.queue("/queue/in").depth == 3


@pytest.mark.parametrize(
    "actions",
    [
        [c.Settle(None, [9])],  # type: ignore[arg-type]
        [c.Settle(None, [1]), c.Settle(None, [1])],  # type: ignore[arg-type]
        [c.Settle(None, [1]), c.Return(None, [1])],  # type: ignore[arg-type]
        [c.Settle(None, [2], cumulative=True), c.Settle(None, [1])],  # type: ignore[arg-type]
        [c.Settle(None, [2], cumulative=True), c.Settle(None, [2], cumulative=True)],  # type: ignore[arg-type]
        [c.Settle(None, [2], cumulative=True), c.Return(None, [1], cumulative=True)],  # type: ignore[arg-type]
    ],
)
def test_one_failed_command_aborts_the_transaction(
    client: Client, actions: list[c.Settle | c.Return]
) -> None:
    enlist(client, out(client, b"a"))
    for action in actions:
        action.peer = client.peer
        enlist(client, action)
    with pytest.raises(Refused, match="transaction 't' was rolled back") as refused:
        commit(client)
    assert refused.value.code == "unknown-delivery"
    assert (depth(client), client.tags) == (0, [1, 2, 3])
    with pytest.raises(Refused, match="no open transaction"):
        commit(client)


def test_a_message_to_a_bad_destination_aborts_the_transaction(client: Client) -> None:
    enlist(client, out(client, b"a"))
    enlist(client, client.sending("/nowhere", b"b"))
    with pytest.raises(Refused, match=r"rolled back.*no known prefix"):
        commit(client)
    assert depth(client) == 0


def test_a_delivery_returned_meanwhile_aborts_the_transaction(client: Client) -> None:
    enlist(client, out(client, b"a"))
    enlist(client, c.Settle(client.peer, [1]))
    client.unsubscribe()
    with pytest.raises(Refused, match="rolled back"):
        commit(client)
    assert depth(client) == 0


def test_cumulative_settling_after_settling_singly_is_fine(client: Client) -> None:
    enlist(client, c.Settle(client.peer, [1]))
    enlist(client, c.Settle(client.peer, [3], cumulative=True))
    commit(client)
    assert client.tags == []
    assert client.stage.queue("/queue/in").counters.acked == 3


@pytest.mark.parametrize("sizes", [[4 * OVERHEAD_BYTES + 1], [OVERHEAD_BYTES, 2 * OVERHEAD_BYTES + 1]])
def test_a_transaction_with_too_many_bytes_is_aborted(client: Client, sizes: list[int]) -> None:
    bodies = [bytes(size) for size in sizes]
    for body in bodies[:-1]:
        enlist(client, out(client, body))
    with pytest.raises(Refused, match=r"larger than 5 frames or 1600 bytes.* and was aborted") as refused:
        enlist(client, out(client, bodies[-1]))
    assert refused.value.code == "too-large"
    with pytest.raises(Refused, match="no open transaction"):
        commit(client)
    assert depth(client) == 0


def test_headers_count_in_a_transaction(client: Client) -> None:
    headers = b"h:%b\n" % (b"x" * OVERHEAD_BYTES)
    for _ in range(2):
        enlist(client, client.sending("/queue/out", b"1", block=headers))
    with pytest.raises(Refused, match="with headers") as refused:
        enlist(client, client.sending("/queue/out", b"1", block=headers))
    assert refused.value.code == "too-large"


def test_open_transactions_of_all_users_and_of_each_are_bounded_together() -> None:
    one = OVERHEAD_BYTES + 1
    stage = Stage(bytes_of_transactions=6 * one)

    def hold(client: Client, name: str, messages: int) -> None:
        client.do(c.Begin(client.peer, name))
        for _ in range(messages):
            enlist(client, out(client, b"1"), name)

    anna, bob, eve = (stage.client(name) for name in ("anna", "bob", "eve"))
    again = stage.client("anna")
    hold(anna, "t", 2)
    with pytest.raises(Refused, match="half of it for one") as refused:
        hold(again, "t", 2)
    assert refused.value.code == "busy"
    hold(bob, "t", 3)
    with pytest.raises(Refused, match="half of it for one"):
        hold(eve, "t", 2)
    bob.disconnect()
    commit(anna)
    hold(eve, "t", 3)
    assert stage.broker.transactions.enlisted_bytes == 3 * one
    eve.do(c.Abort(eve.peer, "t"))
    assert stage.broker.transactions.enlisted_bytes == 0


def test_a_transaction_with_too_many_frames_is_aborted(client: Client) -> None:
    for _ in range(5):
        enlist(client, out(client, b""))
    with pytest.raises(Refused, match="was aborted"):
        enlist(client, out(client, b""))


def test_transactions_are_open_side_by_side_up_to_a_bound(client: Client) -> None:
    with pytest.raises(Refused, match="'t' has already begun"):
        client.do(c.Begin(client.peer, "t"))
    client.do(c.Begin(client.peer, "u"))
    with pytest.raises(Refused, match="may have 2 open transactions"):
        client.do(c.Begin(client.peer, "v"))
    enlist(client, out(client, b"t1"), "t")
    enlist(client, out(client, b"u1"), "u")
    commit(client, "u")
    assert depth(client) == 1


def test_transactions_of_different_clients_have_nothing_in_common(client: Client, stage: Stage) -> None:
    other = stage.client()
    with pytest.raises(Refused, match="no open transaction 't'"):
        enlist(other, out(other, b"a"))
    with pytest.raises(Refused, match="no open transaction 't'"):
        other.do(c.Abort(other.peer, "t"))


def test_a_committed_message_goes_to_topics_too(client: Client, stage: Stage) -> None:
    listener = stage.client()
    listener.subscribe("/topic/t", c.AUTO, render_key="look")
    enlist(client, client.sending("/topic/t", b"1"))
    assert listener.take() == []
    commit(client)
    assert listener.take() == [b"1"]


def test_the_size_of_a_transaction_is_counted_as_it_grows() -> None:
    stage = Stage(commands_per_transaction=50_000, bytes_per_transaction=50_000 * (1 + OVERHEAD_BYTES))
    client = stage.client()
    run: list[c.Command] = [c.Begin(client.peer, "t")]
    run += [c.Enlist(client.peer, "t", client.sending("/queue/out", b"x")) for _ in range(50_000)]
    stage.decide(*run, c.Commit(client.peer, "t"))  # takes minutes where each step looks at all former ones
    assert stage.queue("/queue/out").depth == 50_000
