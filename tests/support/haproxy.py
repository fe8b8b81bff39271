"""Debian's HAProxy before a main and its mirror, with the configuration that docs/mirrors.md shows."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.children import Child
from tests.support.missing import missing
from tests.support.polling import poll
from tests.support.ports import reserve_ports

_PAGE = (ROOT / "docs" / "mirrors.md").read_text(encoding="utf-8")
_HOST = "127.0.0.1"


class Ways(NamedTuple):
    """The ports of the proxy for STOMP and for the web."""

    stomp: int
    web: int


@contextmanager
def haproxy(folder: Path, brokers: tuple[BrokerProcess, BrokerProcess]) -> Iterator[Ways]:
    """HAProxy before two brokers, until the block ends. Skips the test where HAProxy is not installed."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        missing("a proxy before mirrors needs Debian's package haproxy")
    ways = Ways(*reserve_ports(2))
    file = folder / "haproxy.cfg"
    file.write_text(_configuration(ways, brokers))
    with (folder / "haproxy.log").open("wb") as log:
        process = Child([program, "-db", "-f", str(file)], stdout=log, stderr=log)
    try:
        poll(lambda: process.poll() is not None or all(map(_listens, ways)), 10)
        assert process.poll() is None, (folder / "haproxy.log").read_text()
        yield ways
    finally:
        process.kill()
        process.wait()


def _configuration(ways: Ways, brokers: tuple[BrokerProcess, BrokerProcess]) -> str:
    """The configuration of the page, with the ports of this test."""
    shown_there: list[str] = re.findall(r"^```haproxy\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    (text,) = shown_there
    ports = {"bind :61613": f"bind {_HOST}:{ways.stomp}", "bind :8000": f"bind {_HOST}:{ways.web}"}
    for number, broker in enumerate(brokers, 1):
        name = f"b{number}.example.org"
        ports[f"{name}:61613 port 8000"] = f"{_HOST}:{broker.stomp_port} port {broker.port}"
        ports[f"{name}:8000"] = f"{_HOST}:{broker.port}"
    for shown, used in ports.items():
        assert text.count(shown) == 1, f"docs/mirrors.md has no {shown}"
        text = text.replace(shown, used)
    return text


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0
