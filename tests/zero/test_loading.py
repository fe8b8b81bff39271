"""Several files: includes, variables, references, and the bounds of all that."""

import os
from pathlib import Path

import pytest

from broker_app import zero
from broker_app.zero import Folder, Texts
from tests.zero.support import WORDS, documents, faults, load, settings


def test_an_include_is_relative_to_the_including_file() -> None:
    files = Texts(
        {
            "zero.config": '@include "sub/a.config"\n',
            "sub/a.config": '@include "b.config"\n@include "../c.config"\n',
            "sub/b.config": "/config/mom/credit = 7\n",
            "c.config": "/config/mom/port = 8\n",
        }
    )
    found = zero.load("zero.config", files, WORDS)
    assert {name: setting.value for name, setting in found.settings.items()} == {"credit": 7, "port": 8}
    assert {name: file.includes for name, file in found.files.items()} == {
        "zero.config": ("sub/a.config",),
        "sub/a.config": ("sub/b.config", "c.config"),
        "sub/b.config": (),
        "c.config": (),
    }
    assert found.settings["credit"].source == "sub/b.config:1"


def test_an_include_gives_its_arguments_to_the_variables_of_a_file() -> None:
    conditions = '"(${conditions}) && (/event/tls == ${tls})"'
    rule = f'/config/security/rules += {{"conditions": {conditions}, "users": ${{who}}}}'
    text = '\n@include "rule.config" {"conditions": "/event/queue == q",\n "who": ["a", "b"], "tls": true}'
    (document,) = load(text, rule=rule).documents["rules"].values()
    assert document.spec["conditions"] == "(/event/queue == q) && (/event/tls == true)"
    assert document.spec["users"] == ["a", "b"]
    assert document.source == "zero.config:2"


def test_arguments_are_those_of_the_nearest_include() -> None:
    outer = '@include "inner.config" {"x": "${y}+"}\n/config/mom/name = ${y}'
    inner = '/config/connection/messaging/b = {"hostname": "${x}"}'
    text = '@include "outer.config" {"y": "1"}'
    assert documents("bridges", text, outer=outer, inner=inner) == {"b": {"hostname": "1+"}}
    assert settings(text, outer=outer, inner=inner) == {"name": "1"}


def test_a_file_may_be_included_several_times_with_other_arguments() -> None:
    text = '@include "b.config" {"n": "one"}\n@include "b.config" {"n": "two"}'
    bridge = '/config/connection/messaging += {"b": {"hostname": ${n}}}'
    (fault,) = faults(text, b=bridge)
    assert fault.startswith("b.config:1:34 /config/connection/messaging/b is already set at zero.config:1;")


def test_a_reference_is_replaced_by_the_value_of_a_key_set_anywhere() -> None:
    text = """
    /config/mom/port = ${/config/mom/stomp_port}
    /config/mom/stomp_port = 7
    /config/mom/name = "b-${/config/mom/port}"
    /config/connection/messaging/c = ${/config/connection/messaging/b}
    /config/connection/messaging/b = {"hostname": "h-${/config/mom/name}", "port": ${/config/mom/port}}
    """
    assert settings(text) == {"port": 7, "stomp_port": 7, "name": "b-7"}
    assert documents("bridges", text)["c"] == {"hostname": "h-b-7", "port": 7}


def test_an_escaped_dollar_begins_no_reference() -> None:
    assert settings('/config/mom/name = "\\u0024{x}"') == {"name": "${x}"}


WRONG = [
    ('@include "no.config"', {}, "zero.config:1:10 there is no file no.config, relative to zero.config"),
    ('@include ""', {}, "zero.config:1:10 this must be the path of a file"),
    ('@include "a.config"', {"a": '\n@include "no.config"'}, "a.config:2:10 there is no file no.config"),
    ('@include "zero.config"', {}, "zero.config:1:10 the files include each other: zero.config:1 → zero"),
    (
        '@include "a.config"',
        {"a": '\n@include "b.config"', "b": '\n\n@include "./a.config"'},
        "b.config:3:10 the files include each other: zero.config:1 → a.config:2 → b.config:3 → a.config",
    ),
    ("/config/mom/name = ${x}", {}, "zero.config:1:20 there is no variable x: variables are the arguments"),
    (
        '@include "a.config" {"users": 1}',
        {"a": "/config/mom/credit = ${users}\n/config/mom/port = ${user}"},
        "a.config:2:20 the @include gives no argument user; did you mean users?",
    ),
    (
        '@include "a.config" {"credit": 1, "credits": 2}',
        {"a": "/config/mom/credit = ${credit}"},
        "zero.config:1:35 a.config takes no argument credits; did you mean credit?",
    ),
    (
        '@include "a.config" {"n": [1]}',
        {"a": '/config/mom/name = "a${n}"'},
        "a.config:1:20 ${n} is an array, which cannot stand inside a string",
    ),
    ("/config/mom/port = ${/config/mom/prot}", {}, "zero.config:1:20 /config/mom/prot is not set"),
    (
        "/config/mom/port = ${/config/mom/port}",
        {},
        "zero.config:1:20 this reference leads to itself: /config/mom/port → /config/mom/port",
    ),
    (
        '@include "security/messaging_rule.config"',
        {},
        "zero.config:1:1 security/messaging_rule.config takes arguments",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "others", "expected"), WRONG)
def test_unresolved_references_are_reported_with_their_position(
    text: str, others: dict[str, str], expected: str
) -> None:
    found = faults(text, **others)
    assert found[0].startswith(expected)


def test_a_missing_file_of_connections_is_reported_once() -> None:
    (told,) = faults('@include "b.config"\n/config/messaging/broker/configFile = "config/b.config"')
    assert told.startswith("zero.config:1:10 there is no file b.config")


def test_a_loop_of_references_is_reported_at_each_of_its_keys() -> None:
    found = faults("/config/mom/port = ${/config/mom/credit}\n/config/mom/credit = ${/config/mom/port}")
    assert [fault.partition(" ")[0] for fault in found] == ["zero.config:1:20", "zero.config:2:22"]
    assert "/config/mom/port → /config/mom/credit → /config/mom/port" in found[1]


def test_files_include_each_other_twenty_deep_at_most() -> None:
    chain = {f"f{n}": f'@include "f{n + 1}.config"' for n in range(25)}
    (fault,) = faults('@include "f0.config"', **chain)
    assert fault.startswith("f18.config:1:10 files include each other more than 20 deep: zero.config:1 → f0")


def test_there_are_a_hundred_files_at_most() -> None:
    text = "".join(f'@include "f{n}.config"\n' for n in range(101))
    found = faults(text, **{f"f{n}": "" for n in range(101)})
    assert found[0] == "zero.config:100:10 there are more than 100 files"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["[{}]", '{{"a": {}}}'])
def test_references_cannot_make_a_file_grow_without_end(form: str) -> None:
    doubled = ",".join(["${x}"] * 200)
    chain = {f"f{n}": f'@include "f{n + 1}.config" {{"x": [{doubled}]}}' for n in range(18)}
    found = faults('@include "f0.config" {"x": 1}', **chain, f18="/config/mom/name = ${x}")
    assert "expand these files beyond the limits" in found[0]


def test_strings_cannot_grow_without_end() -> None:
    doubled = "${x}" * 50
    chain = {f"f{n}": f'@include "f{n + 1}.config" {{"x": "{doubled}"}}' for n in range(18)}
    found = faults('@include "f0.config" {"x": "aaa"}', **chain, f18="/config/mom/name = ${x}")
    assert "expand these files beyond the limits" in found[0]


def test_the_nesting_of_references_is_limited() -> None:
    steps = "".join(f"/config/mom/k{n} = [${{/config/mom/k{n + 1}}}]\n" for n in range(2000))
    (fault,) = faults(steps)
    assert "are nested too deeply" in fault


def test_a_statement_that_moved_is_reported_at_its_new_position() -> None:
    assert faults("/config/mom/credits = 1")[0].startswith("zero.config:1:1 ")
    assert faults("\n\n/config/mom/credits = 1")[0].startswith("zero.config:3:1 ")
    assert faults('\n@include "a.config"', a="# x\n/config/mom/credits = 1")[0].startswith("a.config:2:1 ")


def test_an_existing_file_of_rules_replaces_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "messaging_rule.config").write_text(
        '/config/security/rules += {"conditions": "(${conditions}) && (/event/tls == true)"}'
    )
    (tmp_path / "zero.config").write_text(
        '\n@include "security/messaging_rule.config" {"conditions": "/event/queue == q"}'
    )
    found = zero.load("zero.config", Folder(tmp_path), WORDS)
    (rule,) = found.documents["rules"].values()
    assert rule.spec["conditions"] == "(/event/queue == q) && (/event/tls == true)"
    assert rule.source == "zero.config:2"


def _refused(folder: Path, name: str = "zero.config", *, confined: bool = False) -> str:
    with pytest.raises(zero.InvalidFiles) as bad:
        zero.load(name, Folder(folder, confined=confined), WORDS)
    (error,) = bad.value.errors
    return f"{error.position}: {error.detail}"


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    assert _refused(tmp_path) == "zero.config:1:1: there is no file zero.config"
    file.write_bytes(b"# fine\n# \xff\n")
    assert _refused(tmp_path) == "zero.config:1:1: zero.config is not UTF-8: byte 10, in line 2, is 0xff"
    file.write_bytes(b"#" * (1024 * 1024 + 1))
    assert _refused(tmp_path) == "zero.config:1:1: zero.config is larger than 1 MiB; split it with @include"
    file.unlink()
    file.mkdir()
    assert _refused(tmp_path) == "zero.config:1:1: zero.config cannot be read: Is a directory"
    file.rmdir()
    os.mkfifo(file)
    assert _refused(tmp_path) == "zero.config:1:1: zero.config is not a regular file"
    assert _refused(tmp_path, "a\0b").endswith("cannot be read: embedded null byte")


def test_a_confined_reader_stays_in_its_directory(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("root:x:0")
    (inside / "link.config").symlink_to(tmp_path / "secret")
    for path in ("../secret", str(tmp_path / "secret"), "link.config"):
        (inside / "zero.config").write_text(f'@include "{path}"')
        assert "is outside of the directory" in _refused(inside, confined=True)


def test_the_tried_files_are_listed() -> None:
    rule = '@include "security/messaging_rule.config" {"users": ["u"]}'
    assert list(load(f'@include "a.config"\n{rule}', a="").looked_for) == [
        "zero.config", "a.config", "security/messaging_rule.config",
    ]  # fmt: skip
    with pytest.raises(zero.InvalidFiles) as bad:
        load('@include "a.config"\n@include "no.config"', a="x")
    assert list(bad.value.looked_for) == ["zero.config", "a.config", "no.config"]
    assert bad.value.looked_for["no.config"] is None


def test_the_fingerprint_identifies_the_content(tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text("# one")
    before = zero.load("zero.config", Folder(tmp_path), WORDS).files["zero.config"].fingerprint
    assert before.state == Folder(tmp_path).stat("zero.config")
    os.utime(file, ns=(1, 1))
    touched = zero.load("zero.config", Folder(tmp_path), WORDS).files["zero.config"].fingerprint
    assert before.state != Folder(tmp_path).stat("zero.config")
    assert touched.sha256 == before.sha256
