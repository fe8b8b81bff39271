"""Paths that other users can write or replace are refused, with the command that mends it."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from broker_app.base.process import ownership
from broker_app.base.process.ownership import ForeignPath

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


def refusal(path: Path) -> ForeignPath:
    with pytest.raises(ForeignPath) as refused:
        ownership.check(path)
    return refused.value


def test_a_path_of_ones_own_and_one_that_does_not_exist_yet_are_accepted(tmp_path: Path) -> None:
    ownership.check(tmp_path)
    ownership.check(tmp_path / "not" / "there")


@pytest.mark.parametrize("name", [".", "file", "not/there"])
def test_the_directory_of_another_user_is_refused_for_all_that_is_in_it(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "pre"
    directory.mkdir()
    directory.chmod(0o755)
    (directory / "file").write_text("")
    os.chown(directory, NOBODY, NOBODY)
    refused = refusal(directory / name)
    assert str(directory) in refused.what
    assert "nobody (user 65534) with mode 0755" in refused.what
    assert f"`chown root {directory}`" in refused.fix


@pytest.mark.parametrize(
    ("mode", "which"), [(0o777, "go"), (0o707, "o"), (0o770, "g"), (0o1777, "go"), (0o2775, "g")]
)
def test_a_directory_that_others_can_write_is_refused_even_if_it_is_sticky(
    tmp_path: Path, mode: int, which: str
) -> None:
    directory = tmp_path / "a b"
    directory.mkdir()
    os.chown(directory, 0, NOBODY)
    directory.chmod(mode)
    refused = refusal(directory)
    assert f"mode {mode:04o}" in refused.what
    assert f"`chmod {which}-w '{directory}'`" in refused.fix


def test_a_parent_is_refused_unless_it_is_sticky_and_what_is_in_it_is_ours(tmp_path: Path) -> None:
    parent, directory = tmp_path / "shared", tmp_path / "shared" / "data"
    directory.mkdir(parents=True)
    parent.chmod(0o777)
    assert f"{parent}, above {directory}," in refusal(directory).what
    parent.chmod(0o1777)
    ownership.check(directory)
    os.chown(directory, NOBODY, 0)
    assert refusal(directory).what.startswith(f"{directory} belongs to nobody")
    os.chown(directory, 0, 0)
    os.chown(parent, NOBODY, 0)  # the owner of a sticky directory can replace what is in it
    assert "above" in refusal(directory).what


def test_a_file_that_others_own_or_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text("")
    file.chmod(0o644)
    ownership.check(file)
    file.chmod(0o666)
    assert "chmod o-w" in refusal(file).fix  # the group is that of root
    file.chmod(0o644)
    os.chown(file, NOBODY, NOBODY)
    assert "chown root" in refusal(file).fix


def test_links_are_followed_to_what_others_can_replace(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("")
    absolute, relative = tmp_path / "absolute", tmp_path / "relative"
    absolute.symlink_to(theirs)
    relative.symlink_to("./absolute/../absolute/file")
    ownership.check(relative)
    os.chown(theirs, NOBODY, NOBODY)
    for path in (absolute, relative, absolute / "file"):
        assert refusal(path).what.startswith(str(theirs))
    os.chown(theirs, 0, 0)
    # Who owns a link in a sticky directory can replace it.
    os.chown(absolute, NOBODY, NOBODY, follow_symlinks=False)
    assert refusal(relative).what.startswith(str(absolute))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    ownership.check(loop)


def test_what_another_user_has_left_in_a_tree_is_refused(tmp_path: Path) -> None:
    note = tmp_path / "notes" / "configuration"
    note.parent.mkdir()
    note.write_text("{}")
    ownership.check_tree(tmp_path)
    os.chown(note, NOBODY, NOBODY)
    with pytest.raises(ForeignPath) as refused:
        ownership.check_tree(tmp_path)
    assert refused.value.what.startswith(str(note))
    assert f"chown -R root {tmp_path}" in refused.value.fix
    note.unlink()
    outside = tmp_path.with_name("outside")
    outside.mkdir()
    os.chown(outside, NOBODY, NOBODY)
    note.symlink_to(outside)
    with pytest.raises(ForeignPath, match="outside belongs"):
        ownership.check_tree(tmp_path)


def test_the_broker_of_another_user_trusts_root_and_the_group_of_root(tmp_path: Path) -> None:
    """As in a container with any user id, whose group is that of root."""
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(0o775)
    ownership.check(directory, user=123_456_789)
    os.chown(directory, 1_000, 0)
    with pytest.raises(ForeignPath, match="chown 123456789 "):
        ownership.check(directory, user=123_456_789)


@pytest.mark.parametrize(
    ("group", "members", "other_user", "accepted"),
    [
        ("ann", [], 2_000, True),
        ("ann", ["ann"], 2_000, True),
        ("ann", ["ann", "bob"], 2_000, False),
        ("ann", [], 1_000, False),
        ("users", [], 2_000, False),
    ],
)
def test_only_the_group_of_the_user_alone_may_write(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    members: list[str],
    other_user: int,
    *,
    accepted: bool,
) -> None:
    ann = pwd.struct_passwd(("ann", "x", 1_000, 1_000, "", "/home/ann", "/bin/sh"))
    bob = pwd.struct_passwd(("bob", "x", 1_001, other_user, "", "/home/bob", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: ann)
    monkeypatch.setattr(pwd, "getpwall", lambda: [ann, bob])
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((group, "x", number, members)))
    directory = tmp_path / "demo"
    directory.mkdir()
    directory.chmod(0o775)
    os.chown(directory, 1_000, 1_000)
    if accepted:
        ownership.check(directory, user=1_000)
    else:
        with pytest.raises(ForeignPath, match="chmod g-w"):
            ownership.check(directory, user=1_000)
