"""The options of a failover URI: names, defaults and meanings as users of ActiveMQ know them."""

import dataclasses
import difflib
import math
import urllib.parse
from collections.abc import Iterable
from typing import Any, TypeVar

__all__ = ["NESTED", "FailoverOptions", "is_option", "option", "options_of", "split_query"]

#: how the options begin that are for the addresses
NESTED = "nested."


def option(name: str, default: Any, meaning: str, least: float = -math.inf) -> Any:
    """An option as users write it; numbers below `least` are refused."""
    return dataclasses.field(default=default, metadata={"name": name, "meaning": meaning, "least": least})


@dataclasses.dataclass(frozen=True)
class FailoverOptions:
    """The values of one URI; times in milliseconds, as the option names of ActiveMQ have them."""

    initial_reconnect_delay: float = option(
        "initialReconnectDelay", 10.0, "ms before the first attempt after a connection was lost", 0
    )
    max_reconnect_delay: float = option("maxReconnectDelay", 30000.0, "ms, ceiling of the delay", 0)
    use_exponential_back_off: bool = option(
        "useExponentialBackOff", True, "multiply the delay by the exponent after each wait"
    )
    reconnect_delay_exponent: float = option("reconnectDelayExponent", 2.0, "that factor", 1)
    max_reconnect_attempts: int = option(
        "maxReconnectAttempts",
        -1,
        "sweeps of the whole list before the client gives up; -1: never, 0: no sweep",
        -1,
    )
    startup_max_reconnect_attempts: int = option(
        "startupMaxReconnectAttempts", -1, "the same until the first success; -1: as maxReconnectAttempts", -1
    )
    randomize: bool = option(
        "randomize", True, "shuffle the list before each sweep; the address that failed comes last"
    )
    backup: bool = option("backup", False, "hold spare connections, which are used at once")
    backup_pool_size: int = option("backupPoolSize", 1, "number of spare connections", 1)
    priority_backup: bool = option(
        "priorityBackup", False, "try preferred addresses while connected elsewhere, and return to them"
    )
    priority_uris: tuple[str, ...] = option(
        "priorityURIs", (), "preferred addresses, separated by commas; empty: the first of the list"
    )
    timeout: float = option(
        "timeout",
        -1.0,
        "ms that the send of a message waits for a connection before it fails; -1: for ever",
        -1,
    )
    track_messages: bool = option(
        "trackMessages", False, "keep what is sent with confirm=False until it is confirmed, to send it again"
    )
    max_cache_size: int = option("maxCacheSize", 131072, "bytes that trackMessages keeps, the newest", 0)
    track_transaction_producers: bool = option(
        "trackTransactionProducers", True, "accepted without effect: a transaction is never sent again"
    )
    update_uris_supported: bool = option("updateURIsSupported", True, "accept lists from the broker")
    update_uris_url: str = option(
        "updateURIsURL",
        "",
        "URL or path of a text of addresses, read when all others have failed, once a sweep",
    )
    rebalance_update_uris: bool = option(
        "rebalanceUpdateURIs", True, "begin again with the first delay when that text has changed"
    )
    reconnect_supported: bool = option(
        "reconnectSupported", True, "obey the broker's order to reconnect elsewhere"
    )
    warn_after_reconnect_attempts: int = option(
        "warnAfterReconnectAttempts", 10, "warn about the first failed sweep and every such one; 0: never"
    )


_Options = TypeVar("_Options")


def _fields(kind: type[Any]) -> dict[str, "dataclasses.Field[Any]"]:
    """The fields of a table of options, by the names that users write."""
    return {field.metadata["name"]: field for field in dataclasses.fields(kind)}


def is_option(name: str) -> bool:
    """True if `name` is one of a failover URI."""
    return name in _fields(FailoverOptions) or name.startswith(NESTED)


def split_query(query: str) -> list[tuple[str, str]]:
    """The names and values of a query. Raises ValueError for one without a value or given twice."""
    pairs: list[tuple[str, str]] = []
    names: set[str] = set()
    for part in filter(None, query.split("&")):
        written, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"the option {part[:80]!r} has no value: write {part[:80]}=…")
        name = urllib.parse.unquote(written)
        if name in names:
            raise ValueError(f"the option {name[:80]} is given twice")
        names.add(name)
        pairs.append((name, urllib.parse.unquote(value)))
    return pairs


def options_of(
    kind: type[_Options], pairs: Iterable[tuple[str, str]], what: str, refused: Iterable[str] = ()
) -> _Options:
    """The options of a URI, `what` in errors; those `refused` count as unknown. Raises ValueError naming what
    is wrong."""
    fields = _fields(kind)
    known = [name for name in fields if name not in set(refused)]
    values, unknown = {}, []
    for name, text in pairs:
        if name in known:
            values[fields[name].name] = _value(fields[name], text)
        else:
            unknown.append(_suggestion(name, known))
    if unknown:
        some = "s" if len(unknown) > 1 else ""
        raise ValueError(f"unknown {what}{some}: {'; '.join(unknown)}")
    return kind(**values)


def _suggestion(name: str, known: list[str]) -> str:
    lowered = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"{name[:80]}, did you mean {lowered[near[0]]}?" if near else name[:80]


def _value(field: "dataclasses.Field[Any]", text: str) -> Any:
    """The value of an option, of the type that its default has."""
    name: str = field.metadata["name"]
    default: Any = field.default
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {text[:80]!r}")
        return text.lower() == "true"
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, str):
        return text
    least = field.metadata["least"]
    try:
        number = type(default)(text)
    except ValueError:
        number = math.nan
    if not (least <= number < math.inf):
        what = "a whole number" if isinstance(default, int) else "a number"
        from_ = f" from {least:g}" if least > -math.inf else ""
        raise ValueError(f"{name} is {what}{from_}, not {text[:80]!r}")
    return number
