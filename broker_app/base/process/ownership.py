"""Ownership of the files and directories that decide what a broker does: other users must not write them.

The broker's user and root are trusted, and so are the group of root, as containers with any user id have it,
and the group that a system makes for one user alone. A path is as safe as the directories above it, up to the
root, mounted or not: users who write one of them, or own it, can replace what is below. In a sticky directory
such as /tmp, only owners can.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = 0
#: links that are followed; the system follows no more
_MAX_LINKS: Final = 40


class ForeignPath(Exception):
    """A path that another user can write or replace. `what` has its owner and mode, `fix` the command."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}; {fix}")
        self.what = what
        self.fix = fix


class _Step(NamedTuple):
    """A component of a path, without links above it. `is_parent` is False for the last one."""

    path: str
    status: os.stat_result
    is_parent: bool


def check(path: Path, user: int | None = None) -> None:
    """Raise ForeignPath if other users than `user`, that of this process by default, can write or replace it.

    What does not exist yet is as safe as its parent.
    """
    user = os.geteuid() if user is None else user
    for step in _steps(os.path.join(os.getcwd(), path)):
        _refuse(step, user, str(path))


def check_tree(path: Path, user: int | None = None) -> None:
    """Do the same for all that is below `path`, too."""
    user = os.geteuid() if user is None else user
    check(path, user)
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            place = os.path.join(folder, name)
            try:
                found = os.lstat(place)
            except FileNotFoundError:  # deleted meanwhile
                continue
            _refuse(_Step(place, found, is_parent=False), user, str(path), recursive=True)
            if stat.S_ISLNK(found.st_mode):
                check(Path(place), user)


def _steps(path: str) -> Iterator[_Step]:
    """All that the system looks at to find `path`, links and their targets too, as far as it can be seen."""
    here, links = "/", 0
    rest = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    yield _Step(here, os.lstat(here), bool(rest))
    while rest:
        part = rest.pop()
        if part == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, part)
        try:
            found = os.lstat(place)
            target = os.readlink(place) if stat.S_ISLNK(found.st_mode) else None
        except OSError:  # it does not exist, or cannot be used either
            return
        yield _Step(place, found, bool(rest))
        if target is None:
            here = place
            continue
        links += 1
        if links > _MAX_LINKS:
            return
        here = "/" if target.startswith("/") else here
        rest += [part for part in reversed(target.split("/")) if part not in ("", ".")]


def _refuse(step: _Step, user: int, wanted: str, *, recursive: bool = False) -> None:
    mode, owner = step.status.st_mode, step.status.st_uid
    is_foreign = owner not in (user, _ROOT)
    others = "" if stat.S_ISLNK(mode) else _others(step, user)
    if not is_foreign and not others:
        return
    # What is wrong with a parent concerns it alone, and what is wrong in a tree all of that.
    place, option = (wanted, "-R ") if recursive else (step.path, "")
    above = "" if recursive or not step.is_parent else f", above {wanted},"
    commands = []
    if is_foreign:
        commands.append(f"chown {option}{_user_name(user)} {shlex.quote(place)}")
    if others:
        commands.append(f"chmod {option}{others}-w {shlex.quote(place)}")
    trusted = _user_name(_ROOT) if user == _ROOT else f"{_user_name(user)} and root"
    raise ForeignPath(
        f"{step.path}{above} belongs to {_shown_user(owner)} with mode {stat.S_IMODE(mode):04o}: users other "
        f"than {trusted} can change what this broker does",
        f"check its content, then `{' && '.join(commands)}`, or name another place",
    )


def _others(step: _Step, user: int) -> str:
    """The others that can write: "g", "o", both or none."""
    mode = step.status.st_mode
    if step.is_parent and mode & stat.S_ISVTX:
        return ""
    group = mode & stat.S_IWGRP and not _is_trusted_group(step.status.st_gid, user)
    return ("g" if group else "") + ("o" if mode & stat.S_IWOTH else "")


def _is_trusted_group(group: int, user: int) -> bool:
    """True for the group of root, and for one that was made for the user alone and has no other members."""
    if group == _ROOT:
        return True
    try:
        account, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    return (
        (found.gr_name, group) == (account.pw_name, account.pw_gid)
        and set(found.gr_mem) <= {account.pw_name}
        and all(one.pw_uid == user for one in pwd.getpwall() if one.pw_gid == group)
    )


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _shown_user(user: int) -> str:
    name = _user_name(user)
    return f"user {user}" if name == str(user) else f"{name} (user {user})"
