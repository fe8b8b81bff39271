"""Settings of destinations, for `mom queue` and `mom topic`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import completion
from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.prompts import confirm
from broker_app.cli.destinations import own_name

if TYPE_CHECKING:
    from broker_app.cli.base.rest import Rest
    from broker_app.net.policy.destination_settings import Setting

_T = TypeVar("_T")

Assignments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=VALUE]...",
        help="settings, such as max_messages=1000; an empty value resets one",
        autocompletion=completion.destination_settings,
    ),
]

_COUNTED = {
    "depth": "waiting", "delayed": "delayed", "unsettled": "unsettled", "consumers": "consumers",
}  # fmt: skip
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def path_of(kind: str, name: str) -> str:
    """The REST path of a queue or topic, or of the settings of a pattern (`orders.>`)."""
    name = own_name(kind, name)
    if name == ">" or name.endswith(".>"):
        return f"/destinations/settings/{kind}/{quote(name, safe='/')}"
    return f"/{kind}s/{quote(name, safe='/')}"


def values_of(assignments: Sequence[str] | None) -> dict[str, object]:
    """Settings by name; None for one that is reset. Those of GlassFish MQ have their names here. Raises
    Failure."""
    from broker_app.net.policy.destination_settings import GLASSFISH, GLASSFISH_UNLIMITED, SETTINGS, faults

    values: dict[str, object] = {}
    for assignment in assignments or ():
        name, equals, text = assignment.partition("=")
        if not equals:
            raise Failure(
                USAGE, f"{assignment!r} is not NAME=VALUE", fix="write NAME=VALUE, or NAME= to reset it"
            )
        if name in GLASSFISH:
            name, text = GLASSFISH[name].setting or name, "0" if text == GLASSFISH_UNLIMITED else text
        if name not in SETTINGS:
            raise Failure(
                USAGE,
                f"{name}: {faults({name: None}, '/queue/x')[name]}",
                fix=f"use one of {', '.join(SETTINGS)}",
            )
        values[name] = _value(SETTINGS[name], text) if text else None
    return values


def _value(setting: Setting, text: str) -> Any:
    from broker_app.base import durations, units

    try:
        if setting.kind is bool:
            return _BOOLEANS[text.lower()]
        if setting.name.endswith("_bytes"):
            return units.size(text)
        if setting.name.endswith("_s"):
            return durations.seconds(text)
        if setting.choices:
            return next((choice for choice in setting.choices if choice.lower() == text.lower()), text)
        return setting.kind(text)
    except (KeyError, ValueError) as error:
        wrong = setting.error_in(text) if setting.kind is not str else "is not valid"
        has_unit = setting.name.endswith(("_bytes", "_s"))
        what = str(error) if has_unit else f"{text!r} {wrong}"
        raise Failure(USAGE, f"{setting.name}: {what}", fix=f"{setting.name}: {setting.about}") from None


def create(
    given: Invocation, kind: str, name: str, assignments: Sequence[str] | None, *, idempotent: bool
) -> None:
    """Declare a destination or pattern that is not declared yet."""
    values = {setting: value for setting, value in values_of(assignments).items() if value is not None}
    path, rest = path_of(kind, name), given.rest()
    made = create_unless_exists(
        given,
        lambda: rest.exchange("PUT", path, values, {"if-none-match": "*"}),
        f"{kind} {name} has settings of its own already",
        fix=f"`mom {kind} set` changes them; --idempotent leaves them as they are",
        idempotent=idempotent,
    )
    if made is not None:
        _report(given, f"declared {kind} {name}", made[0])


def create_unless_exists(
    given: Invocation, make: Callable[[], _T], there: str, *, fix: str, idempotent: bool
) -> _T | None:
    """Return the result of `make`. If the resource exists, raise Failure; if `idempotent`, print that and
    return None."""
    try:
        return make()
    except Failure as failure:
        if failure.code != CONFLICT:
            raise
        if not idempotent:
            raise Failure(CONFLICT, there, fix=fix) from failure
    given.output.say(there)
    return None


def change(given: Invocation, kind: str, name: str, values: dict[str, object]) -> None:
    """Set settings of a destination or pattern, or reset them (None)."""
    rest = given.rest()
    path = path_of(kind, name)
    row, _ = rest.exchange("PATCH", path, values, {"if-match": _etag(rest, path)})
    _report(given, f"changed {kind} {name}", row)


def resume(given: Invocation, kind: str, name: str) -> None:
    """Resume a destination. Raises Failure if another setting still pauses it."""
    rest = given.rest()
    path = path_of(kind, name)
    row, _ = rest.exchange("PATCH", path, {"paused": None}, {"if-match": _etag(rest, path)})
    still = rest.get(path).get("settings", {}).get("paused", {})
    if isinstance(still, dict) and still.get("value", "none") != "none":
        raise Failure(
            CONFLICT,
            f"{kind} {name} is paused by {still['source']} as well ({still['value']})",
            fix=f"resume that one with `mom {kind} resume`, or `mom {kind} set {name} paused=none`",
        )
    _report(given, f"resumed {kind} {name}", row)


def _report(given: Invocation, did: str, row: Facts) -> None:
    """Print what was done to a destination, with its settings."""
    values = ", ".join(f"{name}={_plain(value)}" for name, value in row["settings"].items())
    given.output.done(f"{did}: {values}" if values else did, {"address": row["address"], **row["settings"]})


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
    """Remove a queue, or the settings of a topic or pattern."""
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
    try:
        rest.exchange("DELETE", path, None, {"if-match": version}, query={"force": "true"} if force else None)
    except Failure as failure:
        if failure.code == CONFLICT and counts and not (force or facts.get("consumers")):
            failure.fix = f"`mom queue purge {name}`, or --force deletes its messages with it"
        raise
    given.output.say("removed")


def shown(facts: Facts, form: str) -> Facts:
    """The members of a destination to print. Unless the output is for programs, each setting is one line, and
    defaults are left out. A pattern has only settings."""
    if "address" in facts:
        return {"address": facts["address"], **facts["settings"]}
    if form in ("json", "ndjson"):
        return facts
    result = {name: value for name, value in facts.items() if not isinstance(value, dict | list)}
    if facts.get("fill") is not None:
        result["fill"] = f"{facts['fill']:.1%}"
    if facts.get("propagation") == "local":
        result["propagation"] = "local, not propagated: no other broker knows it while it has no consumers"
    result["permissions"] = ", ".join(facts.get("permissions", ()))
    for name, setting in facts["settings"].items():
        if setting["source"] != "default":
            result[name] = f"{setting['value']} ({setting['source']}){_in_cluster(facts['limits'].get(name))}"
    for number, row in enumerate(facts["subscriptions"], 1):
        result[f"consumer {number}"] = (
            f"{row['user']} {row['ack']} {row['unsettled']}/{row['credit']} since {row['since']}"
        )
    return result


def _in_cluster(limit: dict[str, object] | None) -> str:
    """The scope of a limit in a cluster, and the limit of all brokers; empty without a cluster."""
    if limit is None or limit["brokers"] == 1 or not limit["limit"]:
        return ""
    return f", per {limit['scope']}, {limit['effective']} effective"


def _etag(rest: Rest, path: str) -> str:
    """The ETag of the present settings. Raises Failure when a queue or topic does not exist."""
    try:
        return rest.exchange("GET", path)[1]
    except Failure as failure:
        if failure.code == NOT_FOUND and path.startswith("/destinations/"):
            return '"0"'
        raise
