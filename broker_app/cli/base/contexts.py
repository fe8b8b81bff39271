"""Named brokers in `~/.config/mom/contexts.toml`, and the selection of the broker that a command uses."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from broker_app import config
from broker_app.base.process import ownership
from broker_app.base.process.ownership import ForeignPath
from broker_app.cli.base.failures import FAILED, NOT_FOUND, USAGE, Failure
from mom_client import callback_broker

if TYPE_CHECKING:
    import ssl

DEFAULT_URL = "http://127.0.0.1:8000"
_WEB = ("http", "https")
#: other brokers have only these; `mom pub`, `sub` and `bench` work with them
_STOMP = ("stomp", "stomp+tls", "stomps", "ws", "wss")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Context:
    """One broker. The token itself is never in the file: it is read from `token_file`, or printed by
    `token_command` (a password store). In `production`, deletions are confirmed by typing the name."""

    name: str
    url: str
    token_file: str = ""
    token_command: str = ""
    production: bool = False
    #: certificate authorities to trust, and the client certificate
    ca_file: str = ""
    cert_file: str = ""

    def token(self) -> str:
        """The token, "" without one. Raises Failure."""
        if self.token_command:
            return _printed(self.token_command, f"token_command of context {self.name}")
        return read_token(self.token_file) if self.token_file else ""


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """The broker that a command uses, and the credentials. `url` has no trailing slash."""

    url: str
    login: str = ""
    passcode: str = field(default="", repr=False)
    production: bool = False
    context: str = ""
    ca_file: str = ""
    cert_file: str = ""

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context; None for an address without TLS. Raises Failure."""
        if not self.url.startswith(("https:", "wss:", "stomp+tls:", "stomps:")):
            return None
        from mom_client.connection.transport import tls_context

        try:
            return tls_context(self.ca_file, self.cert_file)
        except OSError as error:
            raise Failure(USAGE, str(error), fix="name another file with --ca-file or --cert-file") from error

    @property
    def web(self) -> str:
        """The address of its REST interface. Raises Failure."""
        if not self.url.startswith(tuple(f"{scheme}://" for scheme in _WEB)):
            raise Failure(
                USAGE,
                f"{self.url} is a STOMP address, this command needs REST",
                fix=f"give the web address, like {DEFAULT_URL}",
            )
        return self.url

    @property
    def stomp(self) -> str:
        """Its STOMP address; for a web address, its WebSocket."""
        scheme, _, rest = self.url.partition("://")
        if scheme not in _WEB:
            return self.url
        return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/ws"


class Contexts:
    """The file of contexts, rewritten as a whole and readable only by its owner."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        home = (
            environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".config"
        )
        self.path = Path(home) / "mom" / "contexts.toml"
        self.current = ""
        self.known: dict[str, Context] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            content = tomllib.loads(self.path.read_text(encoding="utf-8"))
            self.current = str(content.get("current", ""))
            self.known = {name: Context(name, **facts) for name, facts in content.get("context", {}).items()}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise Failure(
                FAILED,
                f"the contexts cannot be read: {error}",
                where=str(self.path),
                fix="correct or remove the file",
            ) from error

    def get(self, name: str) -> Context:
        if name not in self.known:
            known = ", ".join(sorted(self.known)) or "none"
            raise Failure(
                NOT_FOUND, f"there is no context {name!r}", where=str(self.path), fix=f"use one of: {known}"
            )
        return self.known[name]

    def add(self, context: Context) -> None:
        if not _NAME.fullmatch(context.name):
            raise Failure(
                USAGE,
                f"{context.name!r} is not a valid name of a context",
                fix="use letters, digits, - and _, at most 64",
            )
        check_url(context.url)
        self.known[context.name] = context
        self.current = self.current or context.name
        self._write()

    def use(self, name: str) -> None:
        self.current = self.get(name).name
        self._write()

    def remove(self, name: str) -> None:
        """Forget a context. If it is the current one, none is."""
        del self.known[self.get(name).name]
        self.current = "" if self.current == name else self.current
        self._write()

    def _write(self) -> None:
        lines = [f"current = {_toml(self.current)}\n"]
        for context in self.known.values():
            lines.append(f"\n[context.{context.name}]\nurl = {_toml(context.url)}\n")
            lines += [f"{key} = {_toml(value)}\n" for key, value in _options(context).items() if value]
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.writelines(lines)
        new.replace(self.path)


def find(
    name: str | None = None,
    url: str | None = None,
    token_file: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    ca_file: str | None = None,
    cert_file: str | None = None,
) -> BrokerTarget:
    """Return the broker named by options, variables, contexts or the data directory, in this order. The
    context REcallback is the callback broker of this machine.

    The token of a context is sent only to the broker of that context, never to another `url`.
    """
    contexts = Contexts(environment)
    chosen = name or environment.get("MOM_CONTEXT") or contexts.current
    if chosen == callback_broker.NAME and chosen not in contexts.known:
        return _host_broker()
    context = contexts.get(chosen) if chosen else None
    address = url or environment.get("MOM_URL") or (context.url if context else "")
    address = address or _local_broker_url(environment) or DEFAULT_URL
    parts = check_url(address)
    if context is not None and address != context.url:
        context = None
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    shown: dict[str, Any] = {
        "production": context.production if context else False,
        "context": context.name if context else "",
        "ca_file": ca_file or environment.get("MOM_CA_FILE") or (context.ca_file if context else ""),
        "cert_file": cert_file or environment.get("MOM_CERT_FILE") or (context.cert_file if context else ""),
    }
    if parts.username and not token_file:
        return BrokerTarget(bare, unquote(parts.username), unquote(parts.password or ""), **shown)
    token = _token(token_file, environment) or (context.token() if context else "")
    return BrokerTarget(bare, "token" if token else "", token, **shown)


def is_named(
    name: str | None = None, url: str | None = None, environment: Mapping[str, str] = os.environ
) -> bool:
    """True if an option, a variable or the current context names a broker."""
    named = name or url or environment.get("MOM_CONTEXT") or environment.get("MOM_URL")
    return bool(named or Contexts(environment).current)


def local(data: Path) -> BrokerTarget | None:
    """The broker that runs with this data directory, as who can read the directory; None if it has left no
    address there."""
    try:
        for path in (data / config.ADDRESS, data / config.LOCAL_SECRET):
            ownership.check(path)
        url = (data / config.ADDRESS).read_text(encoding="utf-8").strip()
        secret = (data / config.LOCAL_SECRET).read_text(encoding="utf-8").strip()
    except (OSError, ValueError, ForeignPath):
        return None
    return BrokerTarget(url, "token", secret)


def _host_broker() -> BrokerTarget:
    """The callback broker that runs on this machine. Raises Failure."""
    broker = callback_broker.read_file()
    if broker is None:
        raise Failure(
            NOT_FOUND,
            "no callback broker runs on this machine for this user",
            where=str(callback_broker.file_path()),
            fix=f"start one: mom broker run -s {callback_broker.NAME} -r -2",
        )
    return BrokerTarget(broker.url, "token", broker.token, context=callback_broker.NAME)


def _local_broker_url(environment: Mapping[str, str]) -> str:
    """The URL that a broker has written to its data directory (./data or MOM_DATA); empty where there is
    none."""
    named = environment.get("MOM_DATA")
    path = Path(named or config.DEFAULT_DATA) / config.ADDRESS
    try:
        if not named:  # there, a file of another user must not decide where the token is sent
            ownership.check(path)
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ForeignPath):
        return ""


def check_url(url: str) -> SplitResult:
    """Return the parts of a broker's URL. Raises Failure."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in (*_WEB, *_STOMP) and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise Failure(USAGE, f"{url!r} is not the URL of a broker", fix=f"write it like {DEFAULT_URL}")
    return parts


def read_token(path: str) -> str:
    """The token in a file. Raises Failure."""
    try:
        token = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise Failure(
            FAILED, f"the token cannot be read: {error}", where=path, fix="check the path and its permissions"
        ) from error
    if not token:
        raise Failure(
            FAILED, "the token file is empty", where=path, fix="write a token of `mom token create` into it"
        )
    return token


def _token(token_file: str | None, environment: Mapping[str, str]) -> str:
    if token_file:
        return read_token(token_file)
    if environment.get("MOM_TOKEN"):
        return environment["MOM_TOKEN"].strip()
    path = environment.get("MOM_TOKEN_FILE")
    return read_token(path) if path else ""


def _printed(command: str, where: str) -> str:
    import subprocess

    try:
        done = subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, timeout=60)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Failure(
            FAILED,
            f"the command for the token failed: {error}",
            where=where,
            fix="run it in a shell to see why",
        ) from error
    return done.stdout.strip()


def _options(context: Context) -> dict[str, Any]:
    return {
        "token_file": context.token_file,
        "token_command": context.token_command,
        "production": context.production,
        "ca_file": context.ca_file,
        "cert_file": context.cert_file,
    }


def _toml(value: str | bool) -> str:
    # A JSON string is a TOML basic string once DEL, which JSON does not escape, is escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
