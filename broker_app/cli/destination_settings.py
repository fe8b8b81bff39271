"""What `mom queue` and `mom topic` say about destinations: their settings, made, changed and taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import typer

from broker_app.cli import completion
from broker_app.cli.destinations import own_name
from broker_app.cli.failures import CONFLICT, NOT_FOUND, USAGE, Failure
from broker_app.cli.invocation import Invocation
from broker_app.cli.prompts import confirm

if TYPE_CHECKING:
    from broker_app.cli.rest import Rest
    from broker_app.net.policy.destination_settings import Setting

_T = TypeVar("_T")

Assignments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=VALUE]...",
        help="settings, such as max_messages=1000; no value takes one back",
        autocompletion=completion.destination_settings,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would be done")]
Reason = Annotated[str | None, typer.Option("--reason", help="why; kept in history and audit log")]
Idempotent = Annotated[bool, typer.Option("--idempotent", help="no failure when it is so already")]

_COUNTED = {
    "depth": "waiting", "delayed": "delayed", "unsettled": "unsettled", "consumers": "consumers",
}  # fmt: skip
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def path_of(kind: str, name: str) -> str:
    """The address of a queue's or topic's settings, or of a pattern's (`orders.>`)."""
    name = own_name(kind, name)
    if name == ">" or name.endswith(".>"):
        return f"/destinations/settings/{kind}/{quote(name, safe='/')}"
    return f"/{kind}s/{quote(name, safe='/')}"


def values_of(assignments: Sequence[str] | None) -> dict[str, Any]:
    """Settings by name; None for one that is taken back. Raises Failure."""
    from broker_app.net.policy.destination_settings import SETTINGS, faults

    values: dict[str, Any] = {}
    for assignment in assignments or ():
        name, equals, text = assignment.partition("=")
        if not equals:
            raise Failure(
                USAGE, f"{assignment!r} is no setting", fix="write NAME=VALUE, or NAME= to take it back"
            )
        if name not in SETTINGS:
            raise Failure(
                USAGE,
                f"{name}: {faults({name: None}, '/queue/x')[name]}",
                fix=f"take one of {', '.join(SETTINGS)}",
            )
        values[name] = _value(SETTINGS[name], text) if text else None
    return values


def _value(setting: Setting, text: str) -> Any:
    from broker_app import config

    try:
        if setting.kind is bool:
            return _TRUTHS[text.lower()]
        if setting.name.endswith("_bytes"):
            return config.size(text)
        if setting.choices:
            return next((choice for choice in setting.choices if choice.lower() == text.lower()), text)
        return setting.kind(text)
    except (KeyError, ValueError):
        wrong = setting.error_in(text) if setting.kind is not str else "is wrong"
        raise Failure(USAGE, f"{setting.name}: {text!r} {wrong}") from None


def create(
    given: Invocation, kind: str, name: str, assignments: Sequence[str] | None, *, idempotent: bool
) -> None:
    """Declares a destination or pattern that is not declared yet."""
    values = {setting: value for setting, value in values_of(assignments).items() if value is not None}
    path, rest = path_of(kind, name), given.rest()
    made = create_unless_there(
        given,
        lambda: rest.exchange("PUT", path, values, {"if-none-match": "*"}),
        f"{kind} {name} has settings of its own already",
        fix=f"`mom {kind} set` changes them; --idempotent leaves them as they are",
        idempotent=idempotent,
    )
    if made is not None:
        _tell(given, f"declared {kind} {name}", made[0])


def create_unless_there(
    given: Invocation, make: Callable[[], _T], there: str, *, fix: str, idempotent: bool
) -> _T | None:
    """What `make` made; None when it is there already and that is no failure, which is said."""
    try:
        return make()
    except Failure as failure:
        if failure.code != CONFLICT:
            raise
        if not idempotent:
            raise Failure(CONFLICT, there, fix=fix) from failure
    given.output.say(there)
    return None


def change(given: Invocation, kind: str, name: str, values: dict[str, Any]) -> None:
    """Says more about a destination or pattern, or takes back what was said (None)."""
    rest = given.rest()
    path = path_of(kind, name)
    row, _ = rest.exchange("PATCH", path, values, {"if-match": _version(rest, path)})
    _tell(given, f"changed {kind} {name}", row)


def resume(given: Invocation, kind: str, name: str) -> None:
    """Takes back a pause. A Failure says who else pauses it."""
    rest = given.rest()
    path = path_of(kind, name)
    row, _ = rest.exchange("PATCH", path, {"paused": None}, {"if-match": _version(rest, path)})
    still = rest.get(path).get("settings", {}).get("paused", {})
    if isinstance(still, dict) and still.get("value", "none") != "none":
        raise Failure(
            CONFLICT,
            f"{kind} {name} is paused by {still['source']} as well ({still['value']})",
            fix=f"`mom {kind} resume` that, or `mom {kind} set {name} paused=none`",
        )
    _tell(given, f"resumed {kind} {name}", row)


def _tell(given: Invocation, did: str, row: dict[str, Any]) -> None:
    """What was done to a destination, and what is said about it now."""
    said = ", ".join(f"{name}={_plain(value)}" for name, value in row["settings"].items())
    given.output.done(f"{did}: {said}" if said else did, {"address": row["address"], **row["settings"]})


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def remove(
    given: Invocation,
    kind: str,
    name: str,
    *,
    yes: bool,
    dry_run: bool,
    idempotent: bool,
    force: bool = False,
) -> None:
    """Removes a queue, or takes back what was said about a topic or pattern."""
    rest = given.rest()
    path = path_of(kind, name)
    try:
        facts, version = rest.exchange("GET", path)
    except Failure as failure:
        if failure.code == NOT_FOUND and idempotent:
            given.output.say(f"there is no {kind} {name}")
            return
        raise
    counts = [f"{facts[member]} {word}" for member, word in _COUNTED.items() if facts.get(member)]
    given.output.say(f"{kind} {name} at {given.target().url}" + (f": {', '.join(counts)}" if counts else ""))
    if dry_run:
        return
    if not yes:
        confirm(name, f"remove {kind} {name}", production=given.target().production)
    rest.exchange("DELETE", path, None, {"if-match": version}, query={"force": "true"} if force else None)
    given.output.say("removed")


def shown(facts: dict[str, Any], form: str) -> dict[str, Any]:
    """The facts of a destination as they are told: for people, its settings in a line each, without those
    that nobody said anything about. A pattern has settings alone."""
    if "address" in facts:
        return {"address": facts["address"], **facts["settings"]}
    if form in ("json", "ndjson"):
        return facts
    told = {name: value for name, value in facts.items() if not isinstance(value, dict | list)}
    if facts.get("fill") is not None:
        told["fill"] = f"{facts['fill']:.1%}"
    told["may"] = ", ".join(facts.get("may", ()))
    for name, setting in facts["settings"].items():
        if setting["source"] != "default":
            told[name] = f"{setting['value']} ({setting['source']})"
    for number, row in enumerate(facts["subscriptions"], 1):
        told[f"consumer {number}"] = (
            f"{row['user']} {row['ack']} {row['unsettled']}/{row['credit']} since {row['since']}"
        )
    return told


def reason_header(reason: str | None) -> dict[str, str]:
    """The header that says why."""
    return {} if reason is None else {"Mom-Reason": quote(reason)}


def _version(rest: Rest, path: str) -> str:
    """The ETag of what is said now. Raises Failure when a queue or topic is not there."""
    try:
        return rest.exchange("GET", path)[1]
    except Failure as failure:
        if failure.code == NOT_FOUND and path.startswith("/destinations/"):
            return '"0"'
        raise
