"""The central configuration file: settings that all brokers of a cluster read at their start.

Values of a broker's own replace those in it; only the list of brokers is that of both. It is a file or comes
over HTTP, and has names of GlassFish MQ or ActiveMQ (`foreign_names`), or those of settings.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from broker_app import config
from broker_app.base.settings import transport_connectors
from broker_app.base.suggestions import suggestion
from broker_app.config import CentralValue, ConfigError
from broker_app.features.cluster.configuration import foreign_names, properties
from broker_app.features.cluster.configuration.expectations import Expectation
from broker_app.features.cluster.configuration.imq_names import NO_KEEPER
from broker_app.peers.http_client.address_filter import AddressFilter
from broker_app.peers.http_client.client import HttpClient
from broker_app.peers.http_client.exchange import HttpRequest, Unanswered
from broker_app.zero.file_reader import Folder, Unreadable

#: bytes of a file, less than an answer may have
MAX_BYTES: Final = 60_000
TIMEOUT_S: Final = 10.0
_OK: Final = 200
#: the administrator of the broker has chosen the address
_ANYWHERE: Final = AddressFilter(("0.0.0.0/0", "::/0"))
#: settings that it may have besides numbers (limits, times and ports): none that decides about rights
_TEXTS: Final = frozenset(
    {
        "auto_create_queues",
        "cluster",
        "cluster_dynamic_keeper",
        "cluster_id",
        "cluster_keeper",
        "cluster_transport",
        "discovery_uri",
        "network_connector",
        *transport_connectors.SETTINGS,
    }
)
_OWN_NUMBERS: Final = frozenset({"role"})


class CentralContent(NamedTuple):
    """The settings in a central file, and what it orders besides them."""

    values: list[CentralValue]
    expected: list[Expectation]


def read(url: str) -> CentralContent:
    """The content of the file at a URL. Raises ConfigError with all that is wrong in it."""
    name = url.rpartition("/")[2] or url
    wrong: list[str] = []
    found: dict[str, CentralValue] = {}
    expected: list[Expectation] = []
    without_keeper = ""
    for line, key, text in properties.parse(_text_at(url)):
        source = f"{name}:{line}"
        if (key, text.lower()) == (NO_KEEPER, "true"):
            without_keeper = source
        try:
            value = _value(key, text, source)
            if value is not None and (before := found.get(value.name)) is not None:
                raise ValueError(f"{value.name} is set in {before.source} already; keep one of both")
        except ValueError as error:
            wrong.append(f"{source}: {error}")
            continue
        if value is not None:
            found[value.name] = value
        expected.append(Expectation(source, key, text))
    if without_keeper and "cluster_keeper" in found:
        wrong.append(
            f"{without_keeper}: {NO_KEEPER} contradicts the keeper in {found['cluster_keeper'].source}"
        )
    if wrong:
        raise ConfigError("\n".join(wrong))
    return CentralContent(list(found.values()), expected)


def _value(key: str, text: str, source: str) -> CentralValue | None:
    """The setting that a property is; None if it changes nothing. Raises ValueError."""
    row = foreign_names.find(key)
    if row is None:
        _check_setting(key)
        return CentralValue(key, text, source) if text else None
    if not row.is_central:
        raise ValueError(f"{key} is different at each broker: set {row.setting} there")
    value = row.value(text)
    # Copied files have properties without values.
    return CentralValue(row.setting, value, source) if value else None


def _check_setting(name: str) -> None:
    """Raise ValueError for a name that is none of a setting, or of one that the file may not have."""
    settings_here = {one.name: one for one in config.settings()}
    numbers = {
        one.name for one in settings_here.values() if one.type in ("int", "float") and not one.rule.secret
    }
    allowed = (numbers - _OWN_NUMBERS) | _TEXTS
    if name in allowed:
        return
    if name not in settings_here:
        known = [
            *sorted(allowed),
            *(row.name for row in foreign_names.NAMES.values() if row.is_central),
        ]
        raise ValueError(f"there is no property {name}{suggestion(name, known)}")
    raise ValueError(
        f"{name} cannot be in a central file, which has limits, times, ports and the list of brokers: set "
        f"{settings_here[name].variable} at the broker"
    )


def _text_at(url: str) -> str:
    """Raises ConfigError."""
    try:
        parts = urlsplit(url)
        content = _of_file(parts.netloc, unquote(parts.path)) if parts.scheme == "file" else _of_server(url)
    except (ValueError, Unreadable, Unanswered) as error:
        raise ConfigError(f"the central file {url} cannot be read: {error}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(
            f"the central file {url} is longer than {MAX_BYTES:,} bytes: leave out what is not needed"
        )
    return content.decode(errors="replace")


def _of_file(host: str, path: str) -> bytes:
    if host not in ("", "localhost") or not path.startswith("/"):
        raise Unreadable("write file:/PATH with the whole path on this machine")
    content, _ = Folder(Path(path).parent, owned=True).read(Path(path).name)
    return content


def _of_server(url: str) -> bytes:
    """The answer of a web server. In a thread of its own, since the caller may run a loop."""
    with ThreadPoolExecutor(1, "central-file") as thread:
        return thread.submit(asyncio.run, _get(url)).result()


async def _get(url: str) -> bytes:
    client = HttpClient(_ANYWHERE)
    try:
        answer = await client.send(HttpRequest("GET", url, (("Accept", "*/*"),), b"", TIMEOUT_S))
    finally:
        await client.close()
    if answer.status != _OK:
        raise Unanswered("PROTOCOL", f"the server answers {answer.status}")
    return answer.body
