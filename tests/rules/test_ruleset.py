"""The deciding rule is the first that matches, found through an index or not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_app.core.topics.topic import matches
from broker_app.rules.decision import NO_RULE, NO_RULE_NAMES_IT, NO_RULES, Decision, is_guarded
from broker_app.rules.event import PROTOCOLS, RIGHTS, Event, is_wild, method_of
from broker_app.rules.grammar import parse
from broker_app.rules.rule import EFFECTS, Rule
from broker_app.rules.ruleset import Rules
from tests.support.chance import rounds


def test_without_rules_every_logged_in_user_may_do_everything() -> None:
    decision = Rules().decide(Event("john", method="POST", queue="orders"))
    assert (decision.allowed, decision.reason) == (True, "there are no rules")


def test_with_any_rule_an_unmatched_event_is_denied() -> None:
    rules = Rules([Rule("a", conditions="/event/queue == invoices")])
    decision = rules.decide(Event("john", method="POST", queue="orders"))
    assert (decision.allowed, decision.reason, decision.number) == (False, "no rule allows it", 0)


def test_the_first_rule_that_matches_decides() -> None:
    orders = "/event/queue == orders"
    rules = Rules(
        [
            Rule("not-mary", "deny", orders, ("mary",)),
            Rule("staff", "allow", orders, groups=("staff",), source="zero.config:12"),
            Rule("nobody", "deny"),
            Rule("late", "allow", orders),
        ]
    )
    staff = frozenset({"staff"})
    assert rules.decide(Event("mary", staff, "GET", "orders")).reason == "rule 1 (not-mary)"
    decision = rules.decide(Event("john", staff, "GET", "orders"))
    assert (decision.allowed, decision.number, decision.reason) == (True, 2, "rule 2 (zero.config:12)")
    assert rules.decide(Event("john", method="GET", queue="orders")).number == 3


def test_a_rule_without_users_and_groups_is_about_all_users() -> None:
    rules = Rules([Rule("a", conditions="/event/method == GET")])
    assert rules.decide(Event("whoever", method="GET", topic="news")).allowed
    assert not rules.decide(Event("whoever", method="POST", topic="news")).allowed


def test_a_rule_is_about_its_users_and_the_members_of_its_groups() -> None:
    rules = Rules([Rule("a", users=("john",), groups=("ops", "dev"))])
    assert rules.decide(Event("john")).allowed
    assert rules.decide(Event("mary", frozenset({"dev", "x"}))).allowed
    assert not rules.decide(Event("mary", frozenset({"x"}))).allowed


def test_a_user_may_have_the_name_of_a_group() -> None:
    rules = Rules([Rule("a", groups=("ops",))])
    assert not rules.decide(Event("ops")).allowed
    assert not Rules([Rule("a", users=("ops",))]).decide(Event("x", frozenset({"ops"}))).allowed


def test_a_queue_and_a_topic_of_one_name_are_two() -> None:
    rules = Rules([Rule("a", conditions="/event/queue == orders")])
    assert rules.decide(Event("john", method="POST", queue="orders")).allowed
    assert not rules.decide(Event("john", method="POST", topic="orders")).allowed


@pytest.mark.parametrize(
    ("conditions", "topic", "allowed", "denied"),
    [
        # conditions of a rule, what is subscribed to, whether it allows, whether it denies
        ("", "orders.>", True, True),
        ("/event/topic == orders.new", "orders.*", False, True),
        ("/event/topic == orders.new", "orders.>", False, True),
        ("/event/topic == orders", "orders.>", False, True),
        ("/event/topic == orders", "orders.#", False, True),
        ("/event/topic == orders", "orders.*", False, False),
        ("/event/topic == invoices.new", "orders.*", False, False),
        ("/event/topic == orders.>", "orders.>", True, True),
        ("/event/topic != orders.new", "orders.*", False, True),
        ("/event/topic != invoices.new", "orders.*", True, True),
        ("!(/event/topic == orders.new)", "orders.*", False, True),
        ("!(/event/topic == invoices.new)", "orders.*", True, True),
        ("/event/topic =~ .*", "orders.>", True, True),
        ("/event/topic =~ .*", ">", True, True),
        ("/event/topic =~ orders\\..*", "orders.*", True, True),
        ("/event/topic =~ orders\\..*", "orders.eu.>", True, True),
        ("/event/topic =~ orders\\..*", "orders.>", False, True),
        ("/event/topic =~ orders.*", "orders.>", True, True),
        ("/event/topic =~ orders(\\..*)?", "orders.>", True, True),
        ("/event/topic =~ orders(\\..*)?", "orders2.>", False, False),
        ("/event/topic =~ secret\\..*", "orders.>", False, False),
        ("/event/topic =~ secret\\..*", "*.new", False, True),
        ("/event/topic =~ secret\\..*", "sec.*", False, False),
        ("/event/topic =~ [a-z]+\\.new", "orders.*", False, True),
        ("/event/queue == orders", "orders.*", False, False),
        ("/event/topic == orders.new && /event/user == mary", "orders.*", False, False),
        ("/event/topic == orders.new || /event/user == john", "orders.*", True, True),
    ],
)
def test_a_subscription_with_wildcards_needs_a_certain_rule_and_is_denied_by_a_possible_one(
    conditions: str, topic: str, allowed: bool, denied: bool
) -> None:
    event = Event("john", method="GET", topic=topic)
    assert Rules([Rule("a", "allow", conditions)]).decide(event).allowed is allowed
    assert (not Rules([Rule("d", "deny", conditions), Rule("a")]).decide(event).allowed) is denied


@pytest.mark.parametrize("action", ["POST", "send"])
def test_an_action_is_a_method_or_a_right(action: str) -> None:
    assert method_of(action) == "POST"


def test_an_unknown_action_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match="there is no action 'sent'; did you mean send"):
        method_of("sent")
    with pytest.raises(ValueError, match="there is no action 'browze'; did you mean BROWSE"):
        method_of("browze")


# Random rules and events: few names, so that they meet.

NAMES = ["a", "b", "a.b", "storeAndForward:b/queue/q", "storeAndForward:b/queue/r"]
TOPICS = ["a", "a.b", "a.c", "b.a.c", "b"]
KINDS = ["queue", "topic"]
PATTERNS = ["*", ">", "a.*", "a.>", "*.b", "b.*.c", "a.b.#", "b.a.>"]
WHO = ["john", "mary", "ops"]
EXPRESSIONS = [".*", "a.*", "a\\..*", "a(\\..*)?", "[ab]", "b\\.a.*", ".*c", "", "storeAndForward:.*", "A"]

quoted = st.sampled_from(NAMES + TOPICS).map(lambda name: f"'{name}'")
comparisons = st.one_of(
    st.builds("/event/{} {} {}".format, st.sampled_from(KINDS), st.sampled_from(["==", "!="]), quoted),
    st.builds("/event/{} =~ '{}'".format, st.sampled_from(KINDS), st.sampled_from(EXPRESSIONS)),
    st.builds("/event/method {} {}".format, st.sampled_from(["==", "!="]), st.sampled_from(list(RIGHTS))),
    st.builds(
        "/event/{} {} {}".format,
        st.sampled_from(["user", "group"]), st.sampled_from(["==", "!=", "=~"]), st.sampled_from(WHO),
    ),
    st.builds("/event/tls == {}".format, st.sampled_from(["true", "false"])),
    st.builds("/event/address {} 10.0.0.0/{}".format, st.sampled_from(["==", "!="]), st.integers(7, 32)),
)  # fmt: skip
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        inner.map("!({})".format),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: " && ".join(f"({part})" for part in parts)),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: " || ".join(f"({part})" for part in parts)),
    ),
    max_leaves=6,
)
whom = st.lists(st.sampled_from(WHO), max_size=2).map(tuple)
rule_lists = st.lists(
    st.builds(Rule, st.just("r"), st.sampled_from(EFFECTS), st.one_of(st.just(""), conditions), whom, whom),
    max_size=8,
)
places = st.one_of(
    st.fixed_dictionaries({"queue": st.sampled_from(NAMES)}),
    st.fixed_dictionaries({"topic": st.sampled_from(TOPICS + PATTERNS)}),
)
events = st.builds(
    lambda place, **facts: Event(**facts, **place),
    places,
    user=st.sampled_from(WHO),
    groups=st.frozensets(st.sampled_from(WHO)),
    method=st.sampled_from(list(RIGHTS)),
    address=st.sampled_from([None, "10.0.0.1", "::ffff:10.0.0.2", "fd00::1"]),
    protocol=st.sampled_from([None, *PROTOCOLS]),
    tls=st.sampled_from([None, True, False]),
)


def tried_in_order(rules: list[Rule], event: Event) -> tuple[bool, int]:
    """The documented semantics, without any index."""
    if not rules and not is_guarded(event):
        return True, 0
    for number, rule in enumerate(rules, 1):
        condition = parse(rule.conditions)
        holds = True if condition is None else condition.judge(event)
        named = "queue" in rule.conditions and Rules([rule]).entries[0].names(event.queue)
        if not rule.concerns(event.user, event.groups) or (
            is_guarded(event) and rule.effect == "allow" and not named
        ):
            continue
        if holds or (holds is None and rule.effect == "deny"):
            return rule.effect == "allow", number
    return False, 0


@pytest.mark.slow
@settings(max_examples=len(rounds(80, 3_000)))
@given(rule_lists, st.lists(events, min_size=1, max_size=6))
def test_the_index_finds_what_trying_all_rules_in_order_finds(
    rules: list[Rule], happened: list[Event]
) -> None:
    ruleset = Rules(rules)
    for event in happened:
        decision = ruleset.decide(event)
        assert (decision.allowed, decision.number) == tried_in_order(rules, event)


@settings(max_examples=len(rounds(40, 1_500)))
@given(conditions, events)
def test_a_condition_compiled_is_the_condition_judged(text: str, event: Event) -> None:
    condition = parse(text)
    assert condition is not None
    if event.topic is None or not is_wild(event.topic):
        assert condition.test(event) is condition.judge(event)
    assert parse(str(condition)) == condition


@pytest.mark.slow
@settings(max_examples=len(rounds(80, 3_000)))
@given(
    conditions,
    events.filter(lambda event: event.topic is not None and is_wild(event.topic)),
    st.sampled_from(TOPICS),
)
def test_a_certain_decision_for_a_pattern_holds_for_each_of_its_topics(
    text: str, event: Event, topic: str
) -> None:
    condition = parse(text)
    assert condition is not None
    assert event.topic is not None
    judged = condition.judge(event)
    if judged is not None and matches(event.topic, topic):
        assert condition.test(event._replace(topic=topic)) is judged


@pytest.mark.slow
@settings(max_examples=len(rounds(40, 1_500)))
@given(rule_lists, events)
def test_an_explanation_ends_with_the_rule_that_decides(rules: list[Rule], event: Event) -> None:
    found = Rules(rules).explain(event)
    assert found.decision == Rules(rules).decide(event)
    assert all(not step.matched and step.why for step in found.steps[: max(0, found.decision.number - 1)])
    if found.decision.rule is None:
        assert len(found.steps) == len(rules)
        assert not any(step.matched for step in found.steps)
        assert found.decision in (NO_RULE, NO_RULES, NO_RULE_NAMES_IT)
    else:
        assert [step.number for step in found.steps] == list(range(1, found.decision.number + 1))
        assert found.steps[-1].matched
    assert len(found.steps) + found.not_reached == len(rules)


def test_a_decision_is_a_value() -> None:
    rule = Rule("a")
    assert Rules([rule]).decide(Event("x")) == Decision(True, rule, 1)
