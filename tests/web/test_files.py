"""Files of configuration against what runs: the difference is carried out, or nothing; and followed."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError

from broker_app.config import Config
from broker_app.models import Change, Entry
from broker_app.web import actions, files
from broker_app.web.actions import Actor, Edit, apply
from broker_app.web.files import FileWatcher, Reload, file_watcher
from broker_app.web.files.rule_order import positions
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.resource_types.bridges import remotes
from broker_app.zero import InvalidFiles

pytestmark = pytest.mark.django_db

ANN = Actor("ann", actions.API)
RULE = '@include "security/messaging_rule.config" {"conditions": "/event/queue == %s", "users": ["john"]}\n'


def said(kind: str) -> dict[str, Any]:
    return RESOURCE_TYPES[kind].read()


def origins() -> dict[str, str]:
    return {f"{row.kind}/{row.key}": row.origin for row in Entry.objects.all()}


class Follower:
    """A zero.config in a folder and the watch that follows it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.watch = FileWatcher(folder / "zero.config", Config(**settings))

    def write(self, text: str, name: str = "zero.config") -> None:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        # Two writes may fall into one tick of the file system's clock.
        stamp = getattr(self, "_stamp", file.stat().st_mtime_ns) + 1_000_000
        self._stamp = stamp
        os.utime(file, ns=(stamp, stamp))

    def check(self) -> Reload | None:
        """As the thread does it: a file is read when two looks found it the same."""
        assert self.watch.check() is None
        return self.watch.check()

    def change(self, text: str, name: str = "zero.config") -> Reload | None:
        self.write(text, name)
        return self.check()


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def by_action(reload: Reload | None) -> dict[str, list[str]]:
    """The effects of a reload, by action."""
    assert reload is not None and reload.plan is not None
    found: dict[str, list[str]] = {}
    for one in reload.plan.differences:
        found.setdefault(one.action, []).append(f"{one.kind}/{one.key}")
    return found


# ---------------------------------------------------------------------- what is carried out


def test_resources_of_a_file_exist_after_the_start_with_their_position(follower: Follower) -> None:
    follower.write(
        """
        /config/mom/groups/billing = {}
        /config/mom/users/john = {"groups": ["billing"]}
        /config/mom/destinations/queue/orders = {"max_messages": 10}
        /config/connection/messaging/plant7 = {"hostname": "p7", "bridgeCredentials": {"user": "b", "password": "s"}}
        """
        + RULE % "orders"
    )
    follower.watch.start()
    (rule,) = said("rules").items()
    assert rule[1]["conditions"] == "/event/queue == orders"
    assert said("users")["john"]["groups"] == ["billing"]
    assert said("destinations") == {"/queue/orders": {"max_messages": 10}}
    assert said("bridges")["plant7"]["user"] == "b"
    assert remotes()["plant7"].password == "s"
    assert origins() == {
        "groups/billing": "zero.config:2", "users/john": "zero.config:3", "destinations//queue/orders": "zero.config:4",
        "bridges/plant7": "zero.config:5", f"rules/{rule[0]}": "zero.config:6",
    }  # fmt: skip
    change = Change.objects.get()
    assert (change.author, change.via) == ("file zero.config", "file")


def test_loading_the_same_again_changes_nothing(follower: Follower) -> None:
    follower.write(
        '/config/connection/messaging/b = {"hostname": "h", "bridgeCredentials": {"user": "u", "password": "s"}}\n'
        + RULE % "a"
    )
    follower.watch.start()
    FileWatcher(follower.folder / "zero.config", Config()).start()
    assert Change.objects.count() == 1


def test_only_the_difference_is_carried_out(follower: Follower) -> None:
    bridge = '/config/connection/messaging/%s = {"hostname": "%s"}\n'
    follower.write(bridge % ("b1", "one") + bridge % ("b2", "two") + bridge % ("b3", "three"))
    follower.watch.start()
    reload = follower.change(bridge % ("b1", "one") + bridge % ("b2", "other") + bridge % ("b4", "four"))
    assert by_action(reload) == {
        "changed": ["bridges/b2"],
        "added": ["bridges/b4"],
        "removed": ["bridges/b3"],
    }
    assert reload is not None and reload.plan is not None and reload.plan.unchanged == 1
    assert {name: bridge["hostname"] for name, bridge in said("bridges").items()} == {
        "b1": "one", "b2": "other", "b4": "four",
    }  # fmt: skip


def test_a_password_that_changed_is_written_and_shown_nowhere(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = '/config/connection/messaging/b = {"hostname": "h", "bridgeCredentials": {"user": "u", "password": "%s"}}'
    follower.write(bridge % "hunter2")
    follower.watch.start()
    with caplog.at_level(logging.DEBUG):
        assert by_action(follower.change(bridge % "hunter3")) == {"changed": ["bridges/b"]}
    assert remotes()["b"].password == "hunter3"
    summary = f"{follower.watch.shown()} {caplog.text} {list(Change.objects.values())} {said('bridges')}"
    assert "hunter" not in summary


def test_moved_lines_are_recorded_without_changing_a_resource(follower: Follower) -> None:
    follower.write(RULE % "a")
    follower.watch.start()
    (before,) = Entry.objects.values_list("version", flat=True)
    reload = follower.change("# a comment more\n" + RULE % "a")
    assert by_action(reload) == {}
    entry = Entry.objects.get()
    assert (entry.origin, entry.version) == ("zero.config:2", before)
    assert reload is not None and reload.version == before + 1, "nodes read the policy again, for its places"


def test_a_rule_more_at_the_top_leaves_the_others_as_they_are(follower: Follower) -> None:
    follower.write("".join(RULE % name for name in "bcd"))
    follower.watch.start()
    assert len(by_action(follower.change("".join(RULE % name for name in "abcd")))["added"]) == 1
    assert [rule["conditions"][-1] for rule in said("rules").values()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("order", ["ab", "ba", "xabc", "axbc", "abcx", "cab", "cba", "xcyb", "", "wxyzabc"])
def test_rules_get_increasing_positions_in_any_new_order(order: str) -> None:
    found = positions(order, {"a": 1000, "b": 1010, "c": 1011})
    assert list(found) == sorted(found, key=lambda name: found[name])
    assert len(set(found.values())) == len(order)
    assert set(found) == set(order)


def test_as_many_rules_as_possible_keep_their_positions() -> None:
    before = {name: 1000 + 10 * index for index, name in enumerate("abcdefgh")}
    found = positions("hbcdxefag", before)
    assert {name for name in before if found[name] == before[name]} == set("bcdefg")


def test_an_existing_resource_of_another_source_wins_with_a_warning(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    apply(ANN, [Edit("bridges", "b", {"hostname": "of.ann"})])
    follower.write('\n/config/connection/messaging/b = {"hostname": "of.the.file"}')
    follower.watch.start()
    assert said("bridges")["b"]["hostname"] == "of.ann"
    assert "zero.config:2: bridges b exists already and stays as it is" in caplog.text
    assert follower.change("") is not None
    assert list(said("bridges")) == ["b"], "the file never had it"


def test_resources_of_a_file_are_changed_nowhere_else(follower: Follower) -> None:
    follower.write('/config/connection/messaging/b = {"hostname": "h"}')
    follower.watch.start()
    with pytest.raises(actions.Conflict, match=r"zero\.config:1; change it there"):
        apply(ANN, [Edit("bridges", "b", {"hostname": "x"})])


def test_a_bridge_of_a_file_paused_by_an_operator_stays_paused_unless_the_file_sets_it(
    follower: Follower,
) -> None:
    line = '/config/connection/messaging/b = {"hostname": "%s"%s}\n'
    follower.write(line % ("one", ""))
    follower.watch.start()
    entry = Entry.objects.get(kind="bridges", key="b")
    paused = {**said("bridges")["b"], "desired": "paused", "paused_queues": ["q"]}
    assert apply(ANN, [Edit("bridges", "b", paused)]).version is not None
    assert Entry.objects.get(kind="bridges", key="b").origin == entry.origin
    assert by_action(follower.change(line % ("two", ""))) == {"changed": ["bridges/b"]}
    now = said("bridges")["b"]
    assert (now["hostname"], now["desired"], now["paused_queues"]) == ("two", "paused", ["q"])
    FileWatcher(follower.folder / "zero.config", Config()).start()
    assert said("bridges")["b"]["desired"] == "paused", "a restart changes nothing of it"
    with pytest.raises(actions.Conflict, match=r"zero\.config:1; change it there"):
        apply(ANN, [Edit("bridges", "b", {**now, "desired": "running", "hostname": "three"})])
    with pytest.raises(actions.Conflict, match="change it there"):
        apply(ANN, [Edit("bridges", "b", {**now, "desired": "running"}, secrets={"password": "x"})])
    with pytest.raises(actions.Conflict, match="change it there"):
        apply(ANN, [Edit("bridges", "b", None)])
    assert by_action(follower.change(line % ("two", ', "desired": "running"'))) == {"changed": ["bridges/b"]}
    assert said("bridges")["b"]["desired"] == "running"


def test_without_its_file_a_resource_stays_and_may_be_changed(follower: Follower) -> None:
    follower.write('/config/connection/messaging/b = {"hostname": "h"}')
    follower.watch.start()
    assert files.release(actions.SYSTEM, "") == 1
    apply(ANN, [Edit("bridges", "b", {"hostname": "x"})])
    assert files.release(actions.SYSTEM, "") == 0


def test_brokers_that_share_a_configuration_leave_the_files_of_each_other_alone(tmp_path: Path) -> None:
    followers = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        followers[name] = Follower(tmp_path / name)
        running = Config(name=name, database="postgresql://shared")
        followers[name].watch = FileWatcher(tmp_path / name / "zero.config", running)
        bridge = f'/config/connection/messaging/b = {{"hostname": "of.{name}"}}'
        followers[name].write(RULE % name + bridge)
        followers[name].watch.start()
    assert sorted(rule["conditions"] for rule in said("rules").values()) == [
        "/event/queue == one", "/event/queue == two",
    ]  # fmt: skip
    assert said("bridges")["b"]["hostname"] == "of.one", "the first one wins"
    assert set(origins().values()) == {"one/zero.config:1", "one/zero.config:2", "two/zero.config:1"}
    followers["two"].change("")
    assert files.release(actions.SYSTEM, "two/") == 0
    assert len(said("rules")) == 1


# ---------------------------------------------------------------------- what is refused


WRONG = [
    ('/config/connection/messaging/b = {"hostname": "h", "prt": 1}', 1, 59, "prt: there is no such field; did you mean"),
    ('/config/connection/messaging/b = {"hostname": "h",\n "port": 0}', 2, 10, "port: must be between 1 and 65535"),
    ('/config/connection/messaging/a:b = {"hostname": "h"}', 1, 1, "bridge a:b: a bridge's name has neither"),
    ('/config/mom/destinations/queue/a = {"max_mesages": 1}', 1, 52, "max_mesages: there is no such setting"),
    ('/config/mom/destinations/nowhere/a = {"paused": "none"}', 1, 1, "destination /nowhere/a: "),
    ('/config/mom/users/john = {"groups": ["nobody"]}', 1, 37, "groups: there is no group nobody"),
    (
        '/config/mom/groups/billing = {}\n/config/mom/users/john = {"groups": ["biling"]}',
        2, 37, "groups: there is no group biling; did you mean billing?",
    ),
    (
        '\n@include "security/messaging_rule.config" {\n "conditions": "(/event/queue == a", "users": ["u"]}',
        3, 35, "conditions: the condition ends here, expected )",
    ),
    (
        '@include "security/messaging_rule.config" {"conditions": "/event/queu == a"}',
        1, 59, "conditions: ",
    ),
    ('/config/security/rules += {"effect": "maybe"}', 1, 38, "effect: must be allow or deny"),
    ('/config/security/rules += {"user": ["u"]}', 1, 36, "user: there is no such field; did you mean users?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "detail"), WRONG)
def test_invalid_documents_are_reported_with_their_position_and_nothing_is_applied(
    follower: Follower, text: str, line: int, column: int, detail: str
) -> None:
    follower.write(f'{text}\n/config/connection/messaging/fine = {{"hostname": "h"}}')
    with pytest.raises(InvalidFiles) as bad:
        follower.watch.start()
    (error,) = bad.value.errors
    assert (error.line, error.column) == (line, column), str(error)
    assert error.detail.startswith(detail)
    assert said("bridges") == {}
    assert not Change.objects.exists()


def test_all_invalid_documents_are_reported(follower: Follower) -> None:
    follower.write("".join(f'/config/connection/messaging/b{n} = {{"port": 1}}\n' for n in range(3)))
    with pytest.raises(InvalidFiles) as bad:
        follower.watch.start()
    assert [error.line for error in bad.value.errors] == [1, 2, 3]


def test_the_last_administrator_does_not_go_with_a_line_of_a_file(follower: Follower) -> None:
    follower.write('/config/mom/users/boss = {"administrator": true}')
    follower.watch.start()
    reload = follower.change("")
    assert reload is not None and reload.outcome == "refused"
    assert "administrator" in reload.errors[0].detail
    assert said("users")["boss"]["administrator"]


# ---------------------------------------------------------------------- following


def test_a_file_is_read_when_it_has_stopped_changing(follower: Follower) -> None:
    follower.write(RULE % "a")
    follower.watch.start()
    follower.write(RULE % "b")
    assert follower.watch.check() is None
    follower.write("")
    assert follower.watch.check() is None, "it changed since the last look"
    follower.write(RULE % "c")
    assert follower.watch.check() is None
    assert follower.watch.check() is not None
    (rule,) = said("rules").values()
    assert rule["conditions"] == "/event/queue == c"


def test_touching_a_file_reloads_nothing_and_is_logged(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    follower.write(RULE % "a")
    follower.watch.start()
    with caplog.at_level(logging.INFO):
        assert follower.change(RULE % "a") is None
    assert "zero.config was touched and has the same content" in caplog.text
    assert len(follower.watch.shown()["reloads"]) == 1


def test_a_file_put_in_the_place_of_another_is_noticed_although_its_time_is_older(follower: Follower) -> None:
    follower.write(RULE % "a")
    follower.watch.start()
    other = follower.folder / "other"
    other.write_text(RULE % "b")
    os.utime(other, ns=(1, 1))
    other.replace(follower.folder / "zero.config")
    assert set(by_action(follower.check())) == {"added", "removed"}


def test_included_files_are_followed_those_that_are_new_too(follower: Follower) -> None:
    follower.write('@include "brokers.config"\n')
    follower.write("", "brokers.config")
    follower.watch.start()
    follower.write('/config/connection/messaging/b = {"hostname": "h"}', "more/b.config")
    assert by_action(follower.change('@include "more/b.config"', "brokers.config")) == {
        "added": ["bridges/b"]
    }
    changed = follower.change('/config/connection/messaging/b = {"hostname": "other"}', "more/b.config")
    assert by_action(changed) == {"changed": ["bridges/b"]}
    assert changed is not None and changed.trigger == "more/b.config"


def test_a_bad_file_changes_nothing_is_reported_once_and_its_next_correct_form_is_applied(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    follower.write(RULE % "a")
    follower.watch.start()
    before = said("rules")
    refused = follower.change(RULE % "b" + "\n\n/config/mom/credit 7\n")
    assert refused is not None and refused.outcome == "refused"
    assert (refused.errors[0].line, refused.errors[0].column) == (4, 20)
    assert "zero.config:4:20: found a number, expected = or +=" in caplog.text
    assert said("rules") == before
    assert follower.watch.check() is None
    assert follower.change(RULE % "b" + "\n\n/config/mom/credit 7\n") is None, "it is reported once"
    state = follower.watch.shown()
    assert (state["state"], state["files"][0]["state"]) == ("refused", "refused")
    repaired = follower.change(RULE % "b")
    assert repaired is not None and repaired.outcome == "applied"
    assert follower.watch.shown()["state"] == "read"


def test_a_deleted_file_is_reported_once_and_its_resources_stay(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    follower.write(RULE % "a")
    follower.watch.start()
    (follower.folder / "zero.config").unlink()
    gone = follower.check()
    assert gone is not None and gone.errors[0].detail == "there is no file zero.config"
    assert all(follower.watch.check() is None for _ in range(5))
    assert len(said("rules")) == 1
    assert follower.watch.shown()["files"][0]["state"] == "missing"
    back = follower.change(RULE % "a")
    assert back is not None and back.outcome == "unchanged"


BRIDGE = '/config/connection/messaging/%s = {"hostname": "%s"}\n'
BOTH_LINES = '@include "brokers.config"\n/config/messaging/broker/configFile = "config/brokers.config"\n'


def hosts() -> dict[str, str]:
    return {name: bridge["hostname"] for name, bridge in said("bridges").items()}


def test_the_file_of_connections_may_be_the_only_one_that_is_followed(tmp_path: Path) -> None:
    follower = Follower(tmp_path, smash_reload=True)
    follower.write(BOTH_LINES + '@include "more.config"\n' + BRIDGE % ("b0", "zero"))
    follower.write('@include "inner.config"\n' + BRIDGE % ("b1", "one"), "brokers.config")
    follower.write(BRIDGE % ("b2", "two"), "inner.config")
    follower.write(RULE % "a", "more.config")
    follower.watch.start()
    assert hosts() == {"b0": "zero", "b1": "one", "b2": "two"}
    follower.write(BRIDGE % ("b2", "other"), "inner.config")
    follower.write(RULE % "b", "more.config")
    follower.write(BOTH_LINES + "/config/mom/credit what", "zero.config")
    assert all(follower.watch.check() is None for _ in range(3)), (
        "the others are read with it, or at the start"
    )
    reload = follower.change('@include "inner.config"\n' + BRIDGE % ("b1", "changed"), "brokers.config")
    assert by_action(reload) == {"changed": ["bridges/b2", "bridges/b1"]}
    assert hosts() == {"b0": "zero", "b1": "changed", "b2": "other"}
    assert next(iter(said("rules").values()))["conditions"] == "/event/queue == a"
    shown = follower.watch.shown()
    assert (shown["follows"], shown["config_file"]) == ("config-file", "brokers.config")
    assert {file["name"]: file["followed"] for file in shown["files"]} == {
        "zero.config": False, "brokers.config": True, "inner.config": False, "more.config": False,
    }  # fmt: skip
    (follower.folder / "brokers.config").unlink()
    gone = follower.check()
    assert gone is not None and gone.outcome == "refused"
    assert follower.watch.check() is None and len(hosts()) == 3
    assert by_action(follower.change(BRIDGE % ("b1", "back"), "brokers.config")) == {
        "changed": ["bridges/b1"],
        "removed": ["bridges/b2"],
    }


def test_without_a_file_of_connections_the_error_names_both_required_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    follower = Follower(tmp_path, smash_reload=True)
    follower.write('@include "brokers.config"')
    follower.write(BRIDGE % ("b", "one"), "brokers.config")
    follower.watch.start()
    (warning,) = follower.watch.shown()["warnings"]
    assert "needs both lines" in warning["detail"] and "needs both lines" in caplog.text
    follower.write(BRIDGE % ("b", "two"), "brokers.config")
    assert all(follower.watch.check() is None for _ in range(3))
    named = '/config/messaging/broker/configFile = "config/brokers.config"'
    follower.write(named)
    with pytest.raises(InvalidFiles, match=r"brokers.config was not read: include it with @include"):
        FileWatcher(follower.folder / "zero.config", Config()).start()


def test_a_connection_of_both_files_is_warned_of_and_taken_over_when_the_first_has_gone(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    follower.write(BRIDGE % ("b", "main") + BOTH_LINES)
    follower.write(BRIDGE % ("b", "brokers"), "brokers.config")
    follower.watch.start()
    assert hosts() == {"b": "main"}
    assert "b is already set at zero.config:1, which takes precedence" in caplog.text
    (warning,) = follower.watch.shown()["warnings"]
    assert (warning["file"], warning["line"]) == ("brokers.config", 1)
    assert by_action(follower.change(BOTH_LINES)) == {"changed": ["bridges/b"]}
    assert hosts() == {"b": "brokers"} and follower.watch.shown()["warnings"] == []


def test_a_file_of_connections_with_other_content_is_refused_entirely(follower: Follower) -> None:
    follower.write(BOTH_LINES)
    follower.write(BRIDGE % ("b1", "one"), "brokers.config")
    follower.watch.start()
    wrong = BRIDGE % ("b1", "other") + "/config/mom/credit = 7\n" + BRIDGE % ("b2", "two")
    refused = follower.change(wrong, "brokers.config")
    assert refused is not None and refused.outcome == "refused"
    (error,) = refused.errors
    assert (error.line, "/config/mom/credit" in error.detail) == (2, True)
    assert hosts() == {"b1": "one"}


def test_a_rename_as_editors_do_it_is_one_reload(follower: Follower) -> None:
    follower.write(BOTH_LINES)
    follower.write(BRIDGE % ("b", "one"), "brokers.config")
    follower.watch.start()
    file = follower.folder / "brokers.config"
    file.rename(follower.folder / "brokers.config~")  # as vim does it: a copy aside, then the new one
    assert follower.watch.check() is None
    assert by_action(follower.change(BRIDGE % ("b", "two"), "brokers.config")) == {"changed": ["bridges/b"]}
    new = follower.folder / "brokers.new"
    new.write_text(BRIDGE % ("b", "six"))
    stamp = file.stat().st_mtime_ns
    os.utime(new, ns=(stamp, stamp))
    new.replace(file)  # the same time and size: another inode
    assert by_action(follower.check()) == {"changed": ["bridges/b"]}
    assert [reload["outcome"] for reload in follower.watch.shown()["reloads"]] == ["applied"] * 3


def test_results_of_reloads_are_counted_and_published(follower: Follower) -> None:
    heard: list[str] = []
    follower.watch.on_reload = lambda reload: heard.append(reload.outcome)
    follower.write(RULE % "a")
    follower.watch.start()
    follower.change(RULE % "a")
    follower.change("/config/mom/credit 7")
    follower.change(RULE % "a" + "# the same")
    assert follower.watch.shown()["totals"] == {"applied": 1, "unchanged": 1, "refused": 1, "touched": 1}
    assert heard == ["applied", "refused", "unchanged"]


def test_a_missing_include_is_looked_for_until_it_is_there(follower: Follower) -> None:
    follower.write(RULE % "a")
    follower.watch.start()
    refused = follower.change('@include "b.config"')
    assert refused is not None and "there is no file b.config" in refused.errors[0].detail
    applied = follower.change(RULE % "c", "b.config")
    assert set(by_action(applied)) == {"added", "removed"}


def test_settings_of_the_node_need_a_restart_unless_a_variable_sets_them(tmp_path: Path) -> None:
    running = Config(credit=7, port=1, sources={"credit": "zero.config:1", "port": "MOM_PORT"})
    follower = Follower(tmp_path)
    follower.watch = FileWatcher(tmp_path / "zero.config", running)
    follower.write("/config/mom/credit = 7\n/config/mom/port = 1\n")
    follower.watch.start()
    reload = follower.change("/config/mom/credit = 8\n/config/mom/port = 2\n/config/mom/lease = 5\n")
    assert reload is not None and reload.restart == ("credit", "lease")
    reload = follower.change("/config/mom/credit = 7\n")
    assert reload is not None and reload.restart == ()


def test_the_history_of_reloads_is_bounded(follower: Follower) -> None:
    follower.write("")
    follower.watch.start()
    for number in range(file_watcher.MAX_RELOADS + 5):
        follower.change(f"# {number}")
    reloads = follower.watch.shown()["reloads"]
    assert len(reloads) == file_watcher.MAX_RELOADS
    assert reloads[0]["time"] > reloads[-1]["time"]


def test_a_database_that_cannot_be_written_is_tried_again(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.write("")
    follower.watch.start()
    follower.write(RULE % "a")
    with monkeypatch.context() as full:
        full.setattr(file_watcher, "carry_out", _fails)
        with pytest.raises(DatabaseError):
            follower.check()
    follower.watch.recheck()
    assert "added" in by_action(follower.check())


def _fails(*_: Any, **__: Any) -> Any:
    raise DatabaseError("disk is full")
