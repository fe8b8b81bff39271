"""The form of files: keys, values, comments, references; and every way to get it wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_app.zero.errors import Errors
from broker_app.zero.grammar import parse
from broker_app.zero.positions import SourceText
from tests.zero.support import faults, load, settings

SEED = """\
# who may do what
@include "security/messaging_rule.config" {
\t"conditions" : "(/event/queue == storeAndForward:broker2/queue/queue1) && (/event/method == POST)",
\t"users" : ["john"]
}

@include "security/messaging_rule.config" {
\t"conditions" : "(/event/queue == queue1) && (/event/method == POST)",
\t"users" : ["broker1"]
}

@include "security/messaging_rule.config" {
\t"conditions" : "(/event/queue == storeAndForwardSyncQueue)",
\t"users" : ["broker1"]
}
"""


def test_values_are_json_and_may_span_lines_with_comments_between() -> None:
    found = load(
        """
        /config/mom/credit=7 # attached
        /config/messaging/broker/name = "b#1"
        /config/connection/messaging += {
            # the first
            "b1": {"hostname": "h", "paused": false, "retry_s": 2.5e1,
                   "list": [1, -2, null, true]}
        }
        """
    )
    assert {name: said.value for name, said in found.settings.items()} == {"credit": 7, "name": "b#1"}
    assert found.documents["bridges"]["b1"].spec == {
        "hostname": "h", "paused": False, "retry_s": 25.0, "list": [1, -2, None, True],
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "\ufeff# a mark of the byte order\n", "# \r\n"])
def test_a_file_may_be_empty(text: str) -> None:
    assert load(text).settings == {}


def test_lines_may_end_as_on_windows() -> None:
    assert settings('/config/mom/name = "a"\r\n/config/mom/credit = 3\r\n') == {"name": "a", "credit": 3}


WRONG = [
    ("/config/mom/credit", "1:19 the statement ends here, expected = or +="),
    ("/config/mom/credit =", "1:21 the statement ends here, expected a value"),
    ("/config/mom/credit = \n\n# end\n", "1:21 the statement ends here, expected a value"),
    ("/config/mom/credit 7", "1:20 found a number, expected = or +="),
    ("/config/mom/credit : 7", "1:20 found :, expected = or +="),
    ("/config/mom/credit = = 7", "1:22 found =, expected a value"),
    ("/config/mom/credit = 7 8", "1:24 found a number, expected the end of the statement"),
    ("/config/mom/credit = 07", "1:22 this is not a JSON number"),
    ("/config/mom/credit = +7", "1:22 this is not a JSON number"),
    ("/config/mom/credit = 7.", "1:22 this is not a JSON number"),
    ("/config/mom/credit = 1e999", "1:22 this number is too large"),
    ("/config/mom/credit = " + "9" * 5000, "1:22 this number is too large"),
    ("/config/mom/credit = many", "1:22 a string must be in double quotes"),
    ("/config/mom/credit = NaN", "1:22 a string must be in double quotes"),
    ("/config/mom/name = 'a'", "1:20 a string must be in straight double quotes"),
    ("/config/mom/name = \u201ca\u201d", "1:20 a string must be in straight double quotes"),
    ('/config/mom/name = "a', "1:20 this string does not end in its line"),
    ('/config/mom/name = "a\nb"', "1:20 this string does not end in its line"),
    ('/config/mom/name = "a\\q"', "1:22 this is not an escape sequence of JSON"),
    ('/config/mom/name = "a\\u12"', "1:23 this is not an escape sequence of JSON"),
    ('/config/mom/name = "a\tb"', "1:22 a control character must be written as an escape"),
    ('/config/mom/name = "\\ud800"', "1:21 this string has half of a surrogate pair"),
    ('/config/mom/name = "a${b"', "1:22 this ${ has no }"),
    ("/config/mom/name = ${b", "1:20 this ${ has no }"),
    ("/config/mom/name = ${ }", "1:20 a reference names a variable"),
    ('/config/mom/name = "a" // why', "1:24 comments begin with #"),
    ('/config/mom/name = "a";', "1:23 ';' is not allowed here"),
    ('/config/x = {"a": 1,}', "1:20 remove the comma before }"),
    ("/config/x = [1,\n 2,\n]", "2:3 remove the comma before ]"),
    ('/config/x = {"a": 1', "1:20 the statement ends here, expected , or }"),
    ('/config/x = {"a" 1}', "1:18 found a number, expected :"),
    ("/config/x = {a: 1}", "1:14 a string must be in double quotes"),
    ("/config/x = {1: 1}", "1:14 found a number, expected } or a string"),
    ('/config/x = {"a": 1, "a": 2}', "1:22 'a' is already in this object, in line 1"),
    ("/config/x = [1 2]", "1:16 found a number, expected , or ]"),
    ("/config/x = [1}", "1:15 found }, expected , or ]"),
    ("/config/x = " + "[" * 40 + "]" * 40, "1:45 objects and arrays may be nested 32 deep"),
    ("/config" + "/a" * 40 + " = 1", "1:1 a key has at most 32 names"),
    ("@include", "1:9 the statement ends here, expected a string"),
    ("@include a.config", "1:10 a string must be in double quotes"),
    ('@include "a.config" [1]', "1:21 found [, expected the end of the statement or {"),
    ('@included "a.config"', "1:9 a string must be in double quotes"),
    ('@import "a.config"', "1:1 the only directive is @include"),
    ("name = 1", "1:1 a statement begins with a key"),
    ("\x00", "1:1 a statement begins with a key"),
    ("/ = 1", "1:1 '/' is not allowed here"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_each_syntax_error_is_reported_with_its_position(text: str, expected: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith(f"zero.config:{expected}")


def test_all_errors_of_a_file_are_reported_and_the_rest_is_read() -> None:
    wrong = faults(
        "/config/mom/credit 7\n/config/mom/port = 1\n\n  /config/mom/port = 2\n/config/mom/name = 'x'\n"
    )
    assert [fault.partition(" ")[0] for fault in wrong] == [
        "zero.config:1:20", "zero.config:4:3", "zero.config:5:20",
    ]  # fmt: skip


def test_an_error_is_shown_with_a_marker_at_its_position() -> None:
    source = SourceText("zero.config", "\n/config/mom/credit = 7 8\n")
    errors = Errors()
    errors.sources["zero.config"] = source
    parse(source, errors)
    assert str(errors.bad({})) == (
        "zero.config:2:24: found a number, expected the end of the statement\n"
        "    /config/mom/credit = 7 8\n"
        "                           ^"
    )


def test_of_a_very_long_line_only_the_surroundings_are_shown() -> None:
    source = SourceText("zero.config", f'/config/x = ["{"a" * 1000}" 7, "{"b" * 1000}"]')
    errors = Errors()
    errors.sources["zero.config"] = source
    parse(source, errors)
    (error,) = errors.bad({}).errors
    line, mark = error.marker.splitlines()
    assert len(line) <= 120
    assert line[mark.index("^")] == "7"


def test_no_secret_is_shown() -> None:
    text = """\
/config/connection/messaging/b = {"hostname": "h",
  "bridgeCredentials": {"user": "u", "password": "hunter2" "x"}}
/config/connection/messaging/c = {"bridgeCredentials": {"user": "u", "password": hunter2}}
/config/connection/messaging/d = {"bridgeCredentials": {"user": "u", "password": "hunter2
/config/mom/admin_password = "hunter2"
"""
    source = SourceText("zero.config", text)
    errors = Errors()
    errors.sources["zero.config"] = source
    parse(source, errors)
    assert len(errors.bad({}).errors) == 3
    assert "hunter2" not in str(errors.bad({}))


def test_the_examples_of_store_and_forward_are_read_as_they_stand() -> None:
    rules = load(SEED).documents["rules"].values()
    assert [(rule.spec["conditions"], rule.spec["users"], rule.source) for rule in rules] == [
        (
            "(/event/queue == storeAndForward:broker2/queue/queue1) && (/event/method == POST)",
            ["john"],
            "zero.config:2",
        ),
        ("(/event/queue == queue1) && (/event/method == POST)", ["broker1"], "zero.config:7"),
        ("(/event/queue == storeAndForwardSyncQueue)", ["broker1"], "zero.config:12"),
    ]


@given(st.text(alphabet='/@config includ=+#"\\{}[]$:,0123e.\n\t\r\u2028ä\0', max_size=200))
def test_any_text_is_read_or_refused_with_positions_in_it(text: str) -> None:
    source = SourceText("zero.config", text)
    errors = Errors()
    errors.sources["zero.config"] = source
    parse(source, errors)
    lines = text.split("\n")
    for error in errors.bad({}).errors:
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
