"""The grammar of conditions, and the exact position of an error."""

import pytest

from broker_app.rules.errors import RuleError
from broker_app.rules.event import Event
from broker_app.rules.grammar import MAX_DEPTH, MAX_LENGTH, parse
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import MAX_RULES, Rules

EVENT = Event(
    "john", frozenset({"ops", "night"}), "POST", queue="orders", address="10.1.2.3", protocol="stomp",
    tls=True, client="till-7",
)  # fmt: skip


def holds(text: str, event: Event = EVENT) -> bool:
    condition = parse(text)
    return condition is None or condition.test(event)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "/event/queue == orders",
        "/event/queue==orders",
        "( ( /event/queue == orders ) )",
        "/event/queue != invoices",
        "!(/event/queue == invoices)",
        "! /event/queue == invoices",
        "!!/event/queue == orders",
        "/event/queue == 'orders'",
        '/event/queue == "orders"',
        "/event/queue == orders && /event/method == POST",
        "/event/queue == orders&&/event/method == POST",
        "/event/queue == invoices || /event/method == POST",
        "/event/queue == orders\n  && /event/method == POST\n",
        "/event/queue == invoices && /event/queue == orders || /event/method == POST",
        "/event/queue == orders || /event/queue == orders && /event/method == GET",
        "/event/queue =~ ord.*",
        "/event/queue =~ (orders|invoices)",
        "/event/queue =~ o(r(d(er)?)*)*s && /event/user == john",
        "/event/queue =~ (or|xx)ders && /event/user =~ jo(hn|e)",
        "/event/queue =~ 'ord\\w+'",
        "/event/queue =~ 'ord\\\\w+'",
        "/event/user == john",
        "/event/group == ops",
        "/event/group == night",
        "/event/group != day",
        "/event/group =~ n.*t",
        "/event/address == 10.1.2.3",
        "/event/address == 10.0.0.0/8",
        "/event/address != 192.168.0.0/16",
        "/event/address != fd00::/8",
        "/event/address =~ 10\\..*",
        "/event/protocol == stomp",
        "/event/tls == true",
        "/event/tls != false",
        "/event/client =~ till-[0-9]+",
        "!(/event/queue == invoices || /event/queue == bills) && /event/tls == true",
    ],
)
def test_these_hold(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "/event/queue == Orders",
        "/event/queue == order",
        "/event/queue != orders",
        "/event/queue =~ rder",
        "/event/queue =~ Orders",
        "!(/event/queue == orders)",
        "/event/topic == orders",
        "/event/topic != invoices",
        "/event/topic =~ .*",
        "/event/queue == orders && /event/method == GET",
        "/event/queue == invoices && (/event/queue == orders || /event/method == POST)",
        "/event/group == day",
        "/event/group != ops",
        "/event/group =~ op",
        "/event/address == 10.1.2.4",
        "/event/address == 10.2.0.0/16",
        "/event/address == ::/0",
        "/event/address != 10.0.0.0/8",
        "/event/tls == false",
        "/event/tls != true",
    ],
)
def test_these_do_not_hold(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    "path", ["queue", "topic", "method", "user", "group", "address", "protocol", "tls", "client"]
)
def test_a_comparison_with_what_an_event_does_not_have_is_false_whatever_it_is(path: str) -> None:
    values = {"method": "POST", "address": "10.0.0.1", "protocol": "rest", "tls": "true"}
    value = values.get(path, "x")
    nobody = Event(user="y")
    operators = ["=="] + ["!="] * (path not in ("user", "group")) + ["=~"] * (path != "tls")
    for operator in operators:
        assert not holds(f"/event/{path} {operator} {value}", nobody)
    assert holds(f"!(/event/{path} == {value})", nobody)


def test_a_user_without_groups_is_not_in_the_group() -> None:
    assert holds("/event/group != ops", Event("mary"))


def test_an_address_that_ipv6_spells_is_the_one_of_ipv4() -> None:
    assert holds("/event/address == 10.0.0.0/8", Event("a", address="::ffff:10.9.9.9"))
    assert holds("/event/address == fd00::/8", Event("a", address="fd00::1"))


def test_an_address_that_is_none_is_in_no_network_and_outside_of_none() -> None:
    assert not holds("/event/address == 0.0.0.0/0", Event("a", address="unix"))
    assert not holds("/event/address != 0.0.0.0/0", Event("a", address="unix"))


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        ("/event/queue == a&b", "a&b"),
        ("/event/queue == a|b", "a|b"),
        ("/event/queue == a(b)c", "a(b)c"),
        ("/event/queue == 'a(b'", "a(b"),
        ("/event/queue == 'a && b'", "a && b"),
        ("/event/queue == \"a == 'b'\"", "a == 'b'"),
        (r"/event/queue == 'it\'s'", "it's"),
        (r'/event/queue == "a\"b"', 'a"b'),
        (r"/event/queue == 'a\\b'", r"a\b"),
        (r"/event/queue == 'a\b'", r"a\b"),
        ("/event/queue == ' a '", " a "),
        ("/event/queue == ''", ""),
        ("/event/queue == a!b", "a!b"),
        ("/event/queue == it's", "it's"),
        ("/event/queue == größe 世界 🐇", "größe 世界 🐇"),
    ],
)
def test_a_value_is_taken_as_it_is_written(text: str, queue: str) -> None:
    assert holds(text, Event("john", queue=queue))


KNOWN = (
    "nown are /event/queue, /event/topic, /event/method, /event/user, /event/group, /event/address, "
    "/event/protocol, /event/tls, /event/client"
)


@pytest.mark.parametrize(
    ("text", "line", "column", "detail"),
    [
        ("/event/quue == a", 1, 1, f"there is no /event/quue; did you mean /event/queue? K{KNOWN}"),
        ("queue == a", 1, 1, f"there is no queue; did you mean /event/queue? K{KNOWN}"),
        ("/event/zzzzzz == a", 1, 1, f"there is no /event/zzzzzz; k{KNOWN}"),
        (
            "/event/queue == a &&\n  /evnt/topic == b", 2, 3,
            f"there is no /evnt/topic; did you mean /event/topic? K{KNOWN}",
        ),
        ("/event/queue", 1, 13, "the condition ends here, expected == != =~"),
        ("/event/queue ==", 1, 16, "the condition ends here, expected a value"),
        ("/event/queue == \n\n ", 1, 16, "the condition ends here, expected a value"),
        ("(/event/queue == )", 1, 18, "found ')', expected a value"),
        ("/event/queue == && /event/topic == a", 1, 17, "found '&&', expected a value"),
        ("/event/queue = a", 1, 14, "found '=', expected == != =~"),
        ("/event/queue === a", 1, 16, "found '=', expected a value"),
        ("/event/queue orders", 1, 14, "found 'orders', expected == != =~"),
        ("(/event/queue == a", 1, 19, "the condition ends here, expected )"),
        ("/event/queue == a)", 1, 18, "found ')', expected the end"),
        ("/event/queue == a b)", 1, 20, "found ')', expected the end"),
        ("/event/queue == (a", 1, 17, None),
        ("/event/queue == a(b", 1, 18, None),
        ("/event/queue == 'a", 1, 17, "what begins with ' has no end"),
        ('/event/queue == "a\\"', 1, 17, 'what begins with " has no end'),
        ("/event/queue == 'a' b", 1, 21, "found 'b', expected &&, the end, ||"),
        ("/event/queue == a &&", 1, 21, "the condition ends here, expected !, (, /event/…"),
        ("|| /event/queue == a", 1, 1, "found '||', expected !, (, /event/…"),
        ("/event/queue == a && && /event/topic == b", 1, 22, "found '&&', expected !, (, /event/…"),
        ("/event/queue == a\n/event/topic == b", 2, 1, "found '/event/topic', expected &&, the end, ||"),
        ("!", 1, 2, "the condition ends here, expected !, (, /event/…"),
        ("()", 1, 2, "found ')', expected !, (, /event/…"),
        ("%", 1, 1, "found '%', expected !, (, /event/…"),
        (
            "/event/queue == a /event/method == POST", 1, 19,
            "/event/ in a value: is && or || missing before this? If not, put the value in quotes",
        ),
        (
            "/event/queue == a == b", 1, 19,
            "== in a value: is && or || missing before this? If not, put the value in quotes",
        ),
        (
            "/event/method == post", 1, 18,
            "/event/method is never 'post'; did you mean POST? It can be POST, GET, BROWSE, READ, MANAGE",
        ),
        (
            "/event/protocol != http", 1, 20,
            "/event/protocol is never 'http'; it can be stomp, websocket, rest, local, callback",
        ),
        ("/event/tls == yes", 1, 15, "/event/tls is never 'yes'; it can be true, false"),
        ("/event/tls =~ t.*", 1, 15, "/event/tls is true or false; compare it with =="),
        (
            "/event/address == 10.1.2.3/8", 1, 19,
            "'10.1.2.3/8' is neither an IP address nor a network; did you mean 10.0.0.0/8?",
        ),
        (
            "/event/address == example.org", 1, 19,
            "'example.org' is neither an IP address nor a network, like 10.1.2.3, 10.0.0.0/8 or fd00::/8",
        ),
        ("/event/queue == /queue/orders", 1, 17, "names stand without /queue/ here: orders"),
        ("/event/topic == /topic/orders", 1, 17, "names stand without /topic/ here: orders"),
        ("/event/queue =~ a[", 1, 17, "missing ]: ["),
        ("/event/user == a && /event/queue =~ '(a'", 1, 37, "missing ): (a"),
        (r"/event/queue =~ (a)\1", 1, 17, r"invalid escape sequence: \1"),
        ("/event/queue =~ a{1001}", 1, 17, None),
        ("/event/queue =~ \ud800", 1, 17, "it is no text in UTF-8"),
    ],
)  # fmt: skip
def test_errors_are_reported_with_line_and_column(
    text: str, line: int, column: int, detail: str | None
) -> None:
    with pytest.raises(RuleError) as raised:
        parse(text)
    assert (raised.value.line, raised.value.column) == (line, column)
    if detail is not None:
        assert raised.value.detail == detail
    assert str(raised.value) == f"line {line} column {column}: {raised.value.detail}"


def test_a_pointer_marks_the_place_below_the_line() -> None:
    with pytest.raises(RuleError) as raised:
        parse("/event/user == john &&\n\t/event/quue == a")
    assert raised.value.pointer == " /event/quue == a\n ^"


def test_the_pointer_of_a_long_line_shows_what_stands_around_the_place() -> None:
    with pytest.raises(RuleError) as raised:
        parse(f"/event/user == {'x' * 500} && /event/quue == a && /event/user == {'y' * 500}")
    shown, mark = raised.value.pointer.split("\n")
    assert len(shown) == 120
    assert shown[len(mark) - 1 :].startswith("/event/quue == a")


def test_a_condition_has_a_longest_length() -> None:
    longest = "/event/queue == " + "x" * (MAX_LENGTH - 16)
    assert parse(longest)
    with pytest.raises(RuleError, match=f"has {MAX_LENGTH + 1} characters; {MAX_LENGTH} are allowed"):
        parse(longest + "x")


def test_parts_lie_only_so_deep_in_one_another() -> None:
    def nested(times: int) -> str:
        return "!" * times + "/event/queue == a"

    assert parse(nested(MAX_DEPTH - 1))
    with pytest.raises(RuleError, match="at most 32 deep") as raised:
        parse(nested(MAX_DEPTH + 5))
    assert raised.value.column == 6
    with pytest.raises(RuleError, match="at most 32 deep"):
        parse("(/event/user == a && " * 20 + "(/event/user == b || " * 20 + "/event/user == c" + ")" * 40)


def test_parentheses_alone_cost_nothing() -> None:
    assert str(parse("(" * 3_000 + "/event/queue == a" + ")" * 3_000)) == "/event/queue == a"


@pytest.mark.parametrize(
    "start", ["(", "!", "/event/queue == (", "/event/queue == (a", "/event/queue == 'a\\", "((a"]
)
def test_many_errors_are_reported_quickly(start: str) -> None:
    text = (start * MAX_LENGTH)[:MAX_LENGTH]
    with pytest.raises(RuleError):
        parse(text)


def test_a_set_has_a_greatest_number_of_rules() -> None:
    rule = Rule("a")
    assert len(Rules([rule] * MAX_RULES)) == MAX_RULES
    with pytest.raises(RuleError, match="10001 rules; 10000 are allowed"):
        Rules([rule] * (MAX_RULES + 1))


def test_the_rule_that_is_wrong_is_named() -> None:
    with pytest.raises(RuleError) as raised:
        Rules([Rule("good"), Rule("bad", conditions="/event/queue")])
    assert (raised.value.rule, raised.value.line, raised.value.column) == ("bad", 1, 13)


def test_a_rule_allows_or_denies() -> None:
    with pytest.raises(RuleError, match="effect 'permit' is neither allow nor deny") as raised:
        Rules([Rule("a", effect="permit")])
    assert raised.value.rule == "a"
