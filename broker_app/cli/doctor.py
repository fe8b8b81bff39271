"""`mom doctor`: checks a machine and a broker, and says how to fix what is wrong."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from broker_app import config
from broker_app.cli import invocation
from broker_app.cli.contexts import Target
from broker_app.cli.failures import FAILED, REFUSED, Failure

OK, WARNING, ERROR = "ok", "warning", "error"

_COLUMNS = ("check", "state", "result", "fix")
_SLOW_SYNC_MS = 20.0
_CLOCK_S = 2.0
_FILES = 4_096
#: a certificate that ends sooner is worth a look
_CERTIFICATE_DAYS = 14
_TLS_PORTS = {"https": 443, "wss": 443, "stomp+tls": 61614}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Finding(NamedTuple):
    """What one check found; `fix` is empty when nothing is wrong."""

    check: str
    state: str
    result: str
    fix: str = ""


def doctor(
    ctx: typer.Context,
    data: Annotated[
        Path | None, typer.Option(help="data directory to look at (MOM_DATA)", show_default="data")
    ] = None,
) -> None:
    """Check this machine and the broker. An error is exit code 1."""
    given = invocation.of(ctx)
    target = given.target()
    settings = config.load()
    findings = list(_python())
    if urlsplit(target.url).hostname in _LOOPBACK:
        directory = data or settings.data
        findings += [*_directory(directory), *_space(directory, settings), *_sync(directory), _open_files()]
        if settings.stomp_port >= 0:
            findings.append(_port("STOMP port", settings.host, settings.stomp_port, "--stomp-port"))
        if settings.tls_cert is not None and settings.stomp_tls_port >= 0:
            port = settings.stomp_tls_port
            findings.append(_port("STOMP port, TLS", settings.host, port, "--stomp-tls-port"))
        findings.append(_web_port(target, settings))
    findings += _certificate(target)
    findings += _broker(target, given)
    given.output.rows(_COLUMNS, [finding._asdict() for finding in findings])
    bad = [finding.check for finding in findings if finding.state == ERROR]
    if bad:
        raise Failure(FAILED, f"failed: {', '.join(bad)}")


def _python() -> Iterator[Finding]:
    import platform

    found = platform.python_version()
    right = found.startswith("3.11.")
    yield Finding("Python", OK if right else ERROR, found, "" if right else "MOM runs on Python 3.11")


def _directory(directory: Path) -> Iterator[Finding]:
    if not directory.exists():
        parent = next(parent for parent in directory.absolute().parents if parent.exists())
        writable = os.access(parent, os.W_OK)
        fix = "" if writable else f"let this user write in {parent}, or choose another place with --data"
        yield Finding("data", OK if writable else ERROR, f"{directory} is not there yet", fix)
        return
    if not os.access(directory, os.W_OK | os.X_OK):
        yield Finding("data", ERROR, f"{directory} is not writable", f"chown it to user {os.getuid()}")
    elif directory.stat().st_mode & 0o007:
        yield Finding("data", WARNING, f"{directory} can be read by everybody", f"chmod 700 {directory}")
    else:
        yield Finding("data", OK, f"{directory} is writable")


def _space(directory: Path, settings: config.Config) -> Iterator[Finding]:
    import shutil

    free = shutil.disk_usage(_existing(directory)).free
    found = f"{free / config.MIB:,.0f} MiB free"
    if free < 4 * settings.segment_bytes:
        yield Finding("space", ERROR, found, "make room, or choose another disk with --data")
    elif free < 16 * settings.segment_bytes:
        yield Finding("space", WARNING, found, "make room before a backlog fills the disk")
    else:
        yield Finding("space", OK, found)


def _sync(directory: Path) -> Iterator[Finding]:
    """How long the disk takes to keep 4 KiB: every receipt waits for one of these."""
    import statistics
    import tempfile

    place = _existing(directory)
    if not os.access(place, os.W_OK):
        return
    with tempfile.TemporaryFile(dir=place) as file:
        took = []
        for _ in range(20):
            began = time.perf_counter()
            os.write(file.fileno(), bytes(4_096))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    median = statistics.median(took)
    slow = median > _SLOW_SYNC_MS
    fix = "every receipt waits this long: put the data on a faster disk" if slow else ""
    yield Finding("fdatasync", WARNING if slow else OK, f"{median:.2f} ms", fix)


def _open_files() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        return Finding(
            "open files",
            WARNING,
            f"{soft} (hard limit {hard})",
            f"ulimit -n {min(65_536, hard)}: a connection is a file",
        )
    return Finding("open files", OK, str(soft))


def _web_port(target: Target, settings: config.Config) -> Finding:
    port = urlsplit(target.url).port
    return _port("web port", settings.host, port if port is not None else settings.port, "--port")


def _port(check: str, host: str, port: int, option: str) -> Finding:
    """Whether a broker could listen there, or one does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
        return Finding(check, OK, f"{port} is free")
    except PermissionError:
        return Finding(check, ERROR, f"{port} may not be taken", f"take a port from 1024 on with {option}")
    except OSError as error:
        likely = (_speaks_rest, _speaks_stomp) if check == "web port" else (_speaks_stomp, _speaks_rest)
        if any(speaks(host, port) for speaks in likely):
            return Finding(check, OK, f"{port} is served by a broker")
        return Finding(
            check,
            ERROR,
            f"{port}: {error.strerror}",
            f"end the other program, or take another port with {option}",
        )


def _speaks_stomp(host: str, port: int) -> bool:
    """A STOMP broker answers a frame that is out of order with an ERROR."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(b"SEND\n\n\0")
            return connection.recv(64).startswith(b"ERROR")
    except OSError:
        return False


def _speaks_rest(host: str, port: int) -> bool:
    from broker_app.cli.rest import Rest

    name = f"[{host}]" if ":" in host else host
    try:
        return bool(
            Rest(Target(f"http://{name}:{port}"), timeout_s=2).get("/health/live")["status"] == "live"
        )
    except Failure as failure:
        return "tls-required" in failure.what
    except (ValueError, KeyError, TypeError):
        return False


def _certificate(target: Target) -> Iterator[Finding]:
    """Whether the broker's certificate is one that clients trust, and for how long yet."""
    import ssl

    tls, parts = target.tls(), urlsplit(target.url)
    if tls is None or parts.hostname is None:
        return
    port = parts.port or _TLS_PORTS[parts.scheme]
    try:
        with (
            socket.create_connection((parts.hostname, port), timeout=5) as connection,
            tls.wrap_socket(connection, server_hostname=parts.hostname) as wrapped,
        ):
            certificate = wrapped.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        fix = "name its authority with --ca-file or MOM_CA_FILE"
        if "expired" in error.verify_message:
            fix = "renew the file of tls-cert: the broker takes it over while it runs"
        elif "ismatch" in error.verify_message or "not valid for" in error.verify_message:
            fix = "connect by a name that is in the certificate, or let one be made for this name"
        yield Finding("certificate", ERROR, error.verify_message, fix)
        return
    except OSError:
        return  # the next check says so
    ends = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    days = int((ends - time.time()) / 86_400)
    names: Any = certificate.get("subjectAltName", ())
    found = f"for {', '.join(name for _, name in names[:5])}; {days} days left"
    if days < _CERTIFICATE_DAYS:
        yield Finding(
            "certificate", WARNING, found, "renew it: the broker takes the new file over while it runs"
        )
    else:
        yield Finding("certificate", OK, found)


def _broker(target: Target, given: invocation.Invocation) -> Iterator[Finding]:
    """What the broker itself says, if there is one."""
    from importlib import metadata

    from broker_app.cli.rest import Rest

    rest = Rest(target, timeout_s=10)
    try:
        rest.get("/health/ready")
    except Failure as failure:
        yield Finding("broker", WARNING, f"{failure.what} at {target.url}", failure.fix)
        return
    yield Finding("broker", OK, f"ready at {target.url}")
    try:
        sample = rest.get("/stats")
        node, sampled = sample["node"], sample["time"]
    except Failure as failure:
        # Without credentials it is no wonder; with some, they are wrong.
        state = ERROR if failure.code == REFUSED and target.login else WARNING
        yield Finding("login", state, failure.what, failure.fix)
        return
    nobody = "by certificate" if target.cert_file else "anonymous"
    yield Finding("login", OK, f"as {target.login or nobody}")
    here = metadata.version("mom")
    same = node["version"] == here
    fix = "" if same else f"this mom is {here}: install the same version on both sides"
    yield Finding("version", OK if same else WARNING, f"broker {node['name']} is MOM {node['version']}", fix)
    yield _clock(sampled)


def _clock(sampled: str) -> Finding:
    """Leases and expiry times mean the broker's clock. The broker samples once a second."""
    offset_s = (datetime.now(UTC) - datetime.fromisoformat(sampled)).total_seconds()
    if -_CLOCK_S < offset_s < 1 + _CLOCK_S:
        return Finding("clock", OK, "as the broker's")
    side = "ahead of" if offset_s > 0 else "behind"
    result = f"{abs(offset_s):.1f} s {side} the broker"
    return Finding("clock", WARNING, result, "synchronise both clocks with NTP")


def _existing(directory: Path) -> Path:
    return directory if directory.exists() else next(p for p in directory.absolute().parents if p.exists())
