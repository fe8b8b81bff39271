"""`mom doctor`: checks a machine and a broker, and suggests fixes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from broker_app import config
from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.contexts import BrokerTarget
from broker_app.cli.base.failures import FAILED, REFUSED, Failure
from broker_app.cli.base.findings import ERROR, OK, WARNING, Finding, report
from broker_app.cli.pipelines import checks as pipeline_checks
from broker_app.features.cluster.configuration import settings as cluster_settings

_MAX_SYNC_MS = 20.0
_MAX_CLOCK_OFFSET_S = 2.0
_MIN_OPEN_FILES = 4_096
#: a certificate that expires sooner is a warning
_CERTIFICATE_DAYS = 14
_TLS_PORTS = {"https": 443, "wss": 443, "stomp+tls": 61614, "stomps": 61614}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def doctor(
    ctx: typer.Context,
    data: Annotated[
        Path | None, typer.Option(help="data directory to check (MOM_DATA)", show_default="data")
    ] = None,
) -> None:
    """Check this machine and the broker. Exit code 1 if there is an error."""
    given = invocation.of(ctx)
    target = given.target()
    settings = cluster_settings.load()
    findings = list(_python())
    if urlsplit(target.url).hostname in _LOOPBACK:
        directory = data or settings.data
        findings += [*_directory(directory), *_space(directory, settings), *_sync(directory), _open_files()]
        findings += _owners(replace(settings, data=directory))
        findings += _ports(target, settings)
    findings += _certificate(target)
    findings += _broker(target, given)
    findings += pipeline_checks.brief()
    report(given.output, findings)


def _python() -> Iterator[Finding]:
    import platform
    from importlib import metadata

    found = platform.python_version()
    tested = _pythons(metadata.metadata("mom-broker").get_all("Classifier") or [])
    right = found.rpartition(".")[0] in tested
    yield Finding(
        "Python", OK if right else ERROR, found, "" if right else f"use Python {' or '.join(tested)}"
    )


def _pythons(classifiers: list[str]) -> list[str]:
    """The releases of Python that this one of MOM names as its own."""
    beginning = "Programming Language :: Python :: "
    return [one.removeprefix(beginning) for one in classifiers if one.startswith(beginning)]


def _directory(directory: Path) -> Iterator[Finding]:
    if not directory.exists():
        parent = next(parent for parent in directory.absolute().parents if parent.exists())
        writable = os.access(parent, os.W_OK)
        fix = (
            ""
            if writable
            else f"make {parent} writable for this user, or choose another directory with --data"
        )
        yield Finding("data", OK if writable else ERROR, f"{directory} does not exist yet", fix)
        return
    if not os.access(directory, os.W_OK | os.X_OK):
        yield Finding("data", ERROR, f"{directory} is not writable", f"chown it to user {os.getuid()}")
    elif directory.stat().st_mode & 0o007:
        yield Finding("data", WARNING, f"{directory} is readable by all users", f"chmod 700 {directory}")
    else:
        yield Finding("data", OK, f"{directory} is writable")


def _owners(settings: config.Config) -> Iterator[Finding]:
    """Check that only the user of the broker, to whom the data belong, can write what the settings name."""
    from broker_app.management.trusted_files import faults

    user = settings.data.stat().st_uid if settings.data.exists() else os.geteuid()
    found = [
        Finding(fault.variable, ERROR, fault.error.what, fault.error.fix)
        for fault in faults(settings, user=user)
    ]
    yield from found or [Finding("owners", OK, "no other user can write the files that the settings name")]


def _space(directory: Path, settings: config.Config) -> Iterator[Finding]:
    import shutil

    free = shutil.disk_usage(_existing(directory)).free
    found = f"{free / config.MIB:,.0f} MiB free"
    if free < 4 * settings.segment_bytes:
        yield Finding("space", ERROR, found, "free disk space, or choose another disk with --data")
    elif free < 16 * settings.segment_bytes:
        yield Finding("space", WARNING, found, "free disk space before a backlog fills the disk")
    else:
        yield Finding("space", OK, found)


def _sync(directory: Path) -> Iterator[Finding]:
    """Measure how long the disk takes to sync 4 KiB; every receipt waits for one sync."""
    import statistics
    import tempfile

    place = _existing(directory)
    if not os.access(place, os.W_OK):
        return
    with tempfile.TemporaryFile(dir=place) as file:
        times_ms = []
        for _ in range(20):
            began = time.perf_counter()
            os.write(file.fileno(), bytes(4_096))
            os.fdatasync(file.fileno())
            times_ms.append((time.perf_counter() - began) * 1000)
    median = statistics.median(times_ms)
    slow = median > _MAX_SYNC_MS
    fix = "use a faster disk: every receipt waits this long" if slow else ""
    yield Finding("fdatasync", WARNING if slow else OK, f"{median:.2f} ms", fix)


def _open_files() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _MIN_OPEN_FILES:
        return Finding(
            "open files",
            WARNING,
            f"{soft} (hard limit {hard})",
            f"ulimit -n {min(65_536, hard)}: each connection needs a file",
        )
    return Finding("open files", OK, str(soft))


def _ports(target: BrokerTarget, settings: config.Config) -> Iterator[Finding]:
    """Check the ports of the running broker; those of the environment where it does not report its own."""
    running = _running_settings(target)
    host = running.get("host") or settings.host
    stomp_port = running.get("stomp_port") or settings.stomp_port
    tls_port = running.get("stomp_tls_port") or settings.stomp_tls_port
    if stomp_port >= 0:
        yield _port("STOMP port", host, stomp_port, "--stomp-port")
    if (running or {"tls_cert": settings.tls_cert}).get("tls_cert") and tls_port >= 0:
        yield _port("STOMP port, TLS", host, tls_port, "--stomp-tls-port")
    yield _web_port(target, settings)


def _running_settings(target: BrokerTarget) -> Facts:
    """The settings of the running broker by name; none where it is not reachable or does not show them."""
    from broker_app.cli.base.rest import Rest

    try:
        rows = Rest(target, timeout_s=10).get("/config")["settings"]
        return {str(row["name"]): row["value"] for row in rows}
    except (Failure, ValueError, KeyError, TypeError):
        return {}


def _web_port(target: BrokerTarget, settings: config.Config) -> Finding:
    port = urlsplit(target.url).port
    return _port("web port", settings.host, port if port is not None else settings.port, "--port")


def _port(check: str, host: str, port: int, option: str) -> Finding:
    """Check that a port is free, or served by a broker."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
        return Finding(check, OK, f"{port} is free")
    except PermissionError:
        return Finding(check, ERROR, f"{port} needs root", f"choose a port from 1024 with {option}")
    except OSError as error:
        probable = (_speaks_rest, _speaks_stomp) if check == "web port" else (_speaks_stomp, _speaks_rest)
        if any(speaks(host, port) for speaks in probable):
            return Finding(check, OK, f"{port} is served by a broker")
        return Finding(
            check,
            ERROR,
            f"{port}: {error.strerror}",
            f"stop the other program, or choose another port with {option}",
        )


def _speaks_stomp(host: str, port: int) -> bool:
    """True if a STOMP broker answers: it replies with ERROR to a frame before CONNECT."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(b"SEND\n\n\0")
            return connection.recv(64).startswith(b"ERROR")
    except OSError:
        return False


def _speaks_rest(host: str, port: int) -> bool:
    from broker_app.cli.base.rest import Rest

    name = f"[{host}]" if ":" in host else host
    try:
        return bool(
            Rest(BrokerTarget(f"http://{name}:{port}"), timeout_s=2).get("/health/live")["status"] == "live"
        )
    except Failure as failure:
        return "tls-required" in failure.what
    except (ValueError, KeyError, TypeError):
        return False


def _certificate(target: BrokerTarget) -> Iterator[Finding]:
    """Check that clients trust the broker's certificate, and when it expires."""
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
        fix = "name its certificate authority with --ca-file or MOM_CA_FILE"
        if "expired" in error.verify_message:
            fix = "renew the file of tls-cert: the broker reloads it while it runs"
        elif "ismatch" in error.verify_message or "not valid for" in error.verify_message:
            fix = "connect by a name in the certificate, or issue one for this name"
        yield Finding("certificate", ERROR, error.verify_message, fix)
        return
    except OSError:
        return  # the next check reports it
    ends = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    days = int((ends - time.time()) / 86_400)
    names: Any = certificate.get("subjectAltName", ())
    found = f"for {', '.join(name for _, name in names[:5])}; {days} days left"
    if days < _CERTIFICATE_DAYS:
        yield Finding("certificate", WARNING, found, "renew it: the broker reloads the file while it runs")
    else:
        yield Finding("certificate", OK, found)


def _broker(target: BrokerTarget, given: invocation.Invocation) -> Iterator[Finding]:
    """Check the broker itself: readiness, login, version and clock."""
    from importlib import metadata

    from broker_app.cli.base.rest import Rest

    rest = Rest(target, timeout_s=10)
    try:
        rest.get("/health/ready")
    except Failure as failure:
        # Its state is none of the machine's, unless it is there and refuses messages.
        state = ERROR if failure.code == FAILED else WARNING
        yield Finding("broker", state, f"{failure.what} at {target.url}", failure.fix)
        return
    yield Finding("broker", OK, f"ready at {target.url}")
    try:
        sample = rest.get("/stats")
        node, sampled = sample["node"], sample["time"]
    except Failure as failure:
        # Expected without credentials; with credentials, they are wrong.
        state = ERROR if failure.code == REFUSED and target.login else WARNING
        yield Finding("login", state, failure.what, failure.fix)
        return
    other = "by certificate" if target.cert_file else "anonymous"
    yield Finding("login", OK, f"as {target.login or other}")
    here = metadata.version("mom-broker")
    same = node["version"] == here
    fix = "" if same else f"this mom is {here}: install the same version on both sides"
    yield Finding("version", OK if same else WARNING, f"broker {node['name']} is MOM {node['version']}", fix)
    yield _clock(sampled)


def _clock(sampled: str) -> Finding:
    """Compare the clocks: leases and expiry use the broker's, which is sampled once a second."""
    offset_s = (datetime.now(UTC) - datetime.fromisoformat(sampled)).total_seconds()
    if -_MAX_CLOCK_OFFSET_S < offset_s < 1 + _MAX_CLOCK_OFFSET_S:
        return Finding("clock", OK, "in sync with the broker")
    side = "ahead of" if offset_s > 0 else "behind"
    result = f"{abs(offset_s):.1f} s {side} the broker"
    return Finding("clock", WARNING, result, "synchronise both clocks with NTP")


def _existing(directory: Path) -> Path:
    return directory if directory.exists() else next(p for p in directory.absolute().parents if p.exists())
