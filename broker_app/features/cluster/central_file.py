"""The central configuration file: settings that all brokers of a cluster read at their start.

Values of a broker's own replace those in it; only the list of brokers is that of both. It is a file or comes
over HTTP, and has names of GlassFish MQ (`imq_names`) or those of settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from broker_app import config
from broker_app.base.refused import Refused
from broker_app.base.suggestions import suggestion
from broker_app.config import CentralValue, Config, ConfigError
from broker_app.features.cluster import properties, settings
from broker_app.features.cluster.imq_names import NAMES, ImqName
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
    {"auto_create_queues", "cluster", "cluster_dynamic_keeper", "cluster_keeper", "cluster_transport"}
)
_OWN_NUMBERS: Final = frozenset({"role"})


async def reload(running: Config, port: int, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The addresses of the other brokers by the central file of now. Raises Refused."""
    if running.cluster_url is None:
        raise Refused(
            "conflict", "the broker has no central file; start it with cluster_url, the address of one"
        )
    try:
        return settings.others(await asyncio.to_thread(settings.load, environment), port)
    except ConfigError as error:
        raise Refused("invalid", f"the list of brokers stays as it is: {error}") from error


def read(url: str) -> list[CentralValue]:
    """The settings in the file at a URL. Raises ConfigError with all that is wrong in it."""
    name = urlsplit(url).path.rpartition("/")[2] or url
    wrong: list[str] = []
    found: dict[str, CentralValue] = {}
    for line, key, text in properties.parse(_text_at(url)):
        source = f"{name}:{line}"
        try:
            value = _value(key, text, source)
        except ValueError as error:
            wrong.append(f"{source}: {error}")
            continue
        if value is not None and value.name in found:
            wrong.append(
                f"{source}: {value.name} is set in {found[value.name].source} already; keep one of both"
            )
        elif value is not None:
            found[value.name] = value
    if wrong:
        raise ConfigError("\n".join(wrong))
    return list(found.values())


def _value(key: str, text: str, source: str) -> CentralValue | None:
    """The setting that a property is; None if it changes nothing. Raises ValueError."""
    row = NAMES.get(key)
    name = row.setting if row is not None and row.setting else key
    if row is not None and not row.setting:
        _check_fixed(row, text)
        return None
    known = _central_names()
    if row is None and name not in known:
        raise ValueError(
            _refusal(name, sorted({*known, *(row.name for row in NAMES.values() if row.is_central)}))
        )
    if row is not None and not row.is_central:
        raise ValueError(f"{key} is different at each broker: set {row.setting} there")
    if not text:  # as it stands in files that were copied
        return None
    return CentralValue(name, row.values.get(text, text) if row is not None else text, source)


def _check_fixed(row: ImqName, text: str) -> None:
    """Raise ValueError for a property of GlassFish MQ that is no setting here."""
    if row.only is None:
        raise ValueError(f"{row.name} is no setting here: {row.about}")
    if text and text.lower() != row.only:
        raise ValueError(f"{row.name} is always {row.only} here, and {text!r} is not possible: {row.about}")


def _central_names() -> set[str]:
    numbers = {one.name for one in config.settings() if one.type in ("int", "float") and not one.rule.secret}
    return (numbers - _OWN_NUMBERS) | _TEXTS


def _refusal(name: str, known: list[str]) -> str:
    setting = next((one for one in config.settings() if one.name == name), None)
    if setting is None:
        return f"there is no property {name}{suggestion(name, known)}"
    return (
        f"{name} cannot be in a central file, which has limits, times, ports and the list of brokers: set "
        f"{setting.variable} at the broker"
    )


def _text_at(url: str) -> str:
    """Raises ConfigError."""
    parts = urlsplit(url)
    try:
        content = _of_file(parts.netloc, unquote(parts.path)) if parts.scheme == "file" else _of_server(url)
    except (Unreadable, Unanswered) as error:
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
