"""Failures of commands: the message, the fix and the exit code."""

from __future__ import annotations

import re

from broker_app.net.problems import PROBLEMS

OK, FAILED, USAGE, NOT_FOUND, REFUSED, CONFLICT, EMPTY, UNREACHABLE = range(8)

_OF_STATUS = {
    401: REFUSED,
    403: REFUSED,
    404: NOT_FOUND,
    409: CONFLICT,
    412: CONFLICT,
    428: CONFLICT,
    503: UNREACHABLE,
}
_OF_NAME = {
    "invalid": USAGE,
    "invalid-selector": USAGE,
    "bad-destination": USAGE,
    "queue-full": FAILED,
    "store-full": FAILED,
    "busy": FAILED,
    "paused": REFUSED,
    "noserver": FAILED,
}

_FIXES = {
    "not-authenticated": "set MOM_TOKEN; `mom token create NAME --data DIRECTORY` makes one there",
    "not-active": "try again in a moment, or name the active broker with --url",
    "store-full": "consume or purge messages, free space on its disk, or raise MOM_MAX_STORE_BYTES",
    "noserver": "start an application there that serves requests, such as `mom channel serve`",
    "tls-required": "write its address with https:// or stomp+tls://",
    "store-unavailable": "see the broker's log; `mom doctor` checks disk and permissions",
}
#: by what does not exist, the way to find what does
_LISTS = {
    noun: f"`mom {noun} ls` lists those that exist"
    for noun in (
        "queue", "topic", "job", "user", "group", "bridge", "callback", "reflex", "rule", "alert", "service",
    )
} | {"message": "`mom browse QUEUE` lists messages with their ids"}  # fmt: skip
_MISSING = re.compile(r"there is no (\w+)\b")


class Failure(Exception):
    """Ends the command. Has `what` happened, `where` (an address or a file), and how to `fix` it."""

    def __init__(self, code: int, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        lines = [f"mom: {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  fix:   {self.fix}")
        return "\n".join(lines)


def of_problem(name: str, detail: str, where: str) -> Failure:
    """The failure for a problem that the broker returned, by its name (see docs/protocol.md)."""
    status = PROBLEMS[name].status if name in PROBLEMS else 500
    code = _OF_NAME.get(name) or _OF_STATUS.get(status, FAILED)
    missing = _MISSING.match(detail) if code == NOT_FOUND else None
    fix = _LISTS.get(missing[1], "") if missing is not None else _FIXES.get(name, "")
    return Failure(code, f"{detail} ({name})", where=where, fix=fix)


def unreachable(where: str, why: str, fix: str = "") -> Failure:
    """The failure for a broker at `where` that does not answer."""
    return Failure(
        UNREACHABLE,
        f"cannot reach the broker: {why}",
        where=where,
        fix=fix or "start one with `mom up`, or name another with --url, MOM_URL or `mom context use`",
    )
