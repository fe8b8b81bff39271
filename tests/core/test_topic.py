import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_app.core.durability.records import Terms
from broker_app.core.model import NamedSubscription, Queue, Subscription
from broker_app.core.topics import topic
from broker_app.core.topics.topic import Topics
from tests.core.ledger import matches
from tests.core.stage import Stage
from tests.support.chance import rounds

NAMES = st.lists(st.sampled_from(["a", "b", "", "$"]), min_size=1, max_size=4).map(".".join)
FILTERS = st.builds(
    lambda levels, rest: ".".join([*levels, *rest]),
    st.lists(st.sampled_from(["a", "b", "", "*"]), max_size=3),
    st.sampled_from([["a"], [">"], ["#"], ["*"]]),
)


class Meadow:
    """Subscriptions to topic filters, in a trie and in a list."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.listed: list[tuple[str, Subscription | NamedSubscription, bool]] = []
        self._peer = Stage().client().peer

    def add(self, pattern: str, look: str | None) -> Subscription:
        subscription = Subscription(self._peer, str(len(self.listed)), pattern, "auto", 1, 0, look)
        self.topics.add(pattern, subscription, together=look is not None)
        self.listed.append((pattern, subscription, look is not None))
        return subscription

    def add_named(self, pattern: str) -> None:
        name = str(len(self.listed))
        named = NamedSubscription(name, Terms(pattern, "", False, ""), Queue(name, durable=True), None)
        self.topics.add_named(pattern, named)
        self.listed.append((pattern, named, False))

    def remove(self, index: int) -> None:
        pattern, subscription, _ = self.listed.pop(index)
        if isinstance(subscription, NamedSubscription):
            self.topics.remove_named(pattern, subscription)
        else:
            self.topics.remove(pattern, subscription)

    def found(self, name: str) -> set[Subscription | NamedSubscription]:
        match = self.topics.match(name)
        found: list[Subscription | NamedSubscription] = [*match.singles, *match.named]
        found += [member for look in match.fanout_groups for member in look.members]
        assert len(found) == self.topics.count(name)
        assert len(found) == len(set(found)), "no subscription is found twice"
        return set(found)

    def expected(self, name: str) -> set[Subscription | NamedSubscription]:
        return {subscription for pattern, subscription, _ in self.listed if matches(pattern, name)}


@pytest.mark.slow
@given(
    st.lists(st.tuples(FILTERS, st.sampled_from(["x", "y", "named", None])), max_size=8),
    st.lists(NAMES),
    st.randoms(),
)
@settings(max_examples=len(rounds(80, 3_000)))
def test_the_trie_finds_what_a_scan_of_all_subscriptions_finds(
    filters: list[tuple[str, str | None]], names: list[str], random: "object"
) -> None:
    meadow = Meadow()
    for pattern, look in filters:
        if look == "named":
            meadow.add_named(pattern)
        else:
            meadow.add(pattern, look)
        for name in names:
            assert meadow.found(name) == meadow.expected(name)
    while meadow.listed:
        meadow.remove(random.randrange(len(meadow.listed)))  # type: ignore[attr-defined]
        for name in names:
            assert meadow.found(name) == meadow.expected(name)
    assert meadow.topics._root.empty, "nothing is left of filters without subscriptions"


@pytest.mark.parametrize(
    ("pattern", "name", "matching"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.B", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("*", "a", True),
        ("a.>", "a", True),
        ("a.>", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "ab", False),
        ("a.#", "a.b.c", True),
        ("#", "a", True),
        (">", "a.b.c", True),
        ("a.*.>", "a", False),
        ("a.*.>", "a.b", True),
        ("a*", "ab", False),
    ],
)
def test_a_star_is_one_level_and_a_greater_than_sign_is_the_rest(
    pattern: str, name: str, matching: bool
) -> None:
    meadow = Meadow()
    meadow.add(pattern, None)
    assert bool(meadow.found(name)) == matching
    assert matches(pattern, name) == matching


def test_subscriptions_of_one_filter_and_render_key_are_served_together() -> None:
    meadow = Meadow()
    first, second, other = meadow.add("a.*", "x"), meadow.add("a.*", "x"), meadow.add("a.*", "y")
    assert first.fanout_group is second.fanout_group is not other.fanout_group
    looks, singles, _ = meadow.topics.match("a.b")
    assert [set(look.members) for look in looks] == [{first, second}, {other}]
    assert singles == []


def test_a_fanout_is_for_the_members_of_the_moment_it_began() -> None:
    meadow = Meadow()
    first = meadow.add("a", "x")
    look = first.fanout_group
    assert look is not None
    before = look.open()
    second = meadow.add("a", "x")
    assert look.fanout is None, "a change of members begins a new one"
    assert before.members == (first,)
    assert look.open().members == (first, second)


def test_a_client_that_leaves_a_fanout_is_none_of_its_members() -> None:
    meadow = Meadow()
    first, second, stranger = meadow.add("a", "x"), meadow.add("a", "x"), meadow.add("a", "y")
    look = first.fanout_group
    assert look is not None
    fanout = look.open()
    assert not fanout.leave(stranger)
    assert fanout.leave(first)
    assert not fanout.leave(first)
    fanout.close()
    assert fanout.members == (second,)


def test_the_number_of_remembered_matches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topics, "MAX_CACHED", 10)
    meadow = Meadow()
    for _ in range(4):
        meadow.add("a.*", None)
    for number in range(20):
        assert len(meadow.found(f"a.{number}")) == 4
        assert len(meadow.topics._matches) <= 2  # of five each: a name, and four that it matches


@given(NAMES, FILTERS)
def test_a_filter_alone_matches_as_it_does_in_the_trie(name: str, pattern: str) -> None:
    meadow = Meadow()
    meadow.add(pattern, None)
    assert topic.matches(pattern, name) == any(meadow.topics.match(name))
