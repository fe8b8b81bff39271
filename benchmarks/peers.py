"""`make bench-peers`: install Debian's RabbitMQ and ActiveMQ, and try each one.

`--install-only` does not try them, and so needs no load generator: what the tests of bridges ask for.

Their configuration is made for each run, in the run's own directory (`servers.py`). Debian's
packages bring system services; those that were not there before are stopped and disabled again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bench import progress, run_or_explain
from benchmarks.child import ServerFailed
from benchmarks.generator import Generator
from benchmarks.measurement import Length, measure
from benchmarks.servers import PEERS
from benchmarks.workloads import WORKLOADS

# The package of each peer, and the services that it brings.
PACKAGES = {"rabbitmq-server": ("rabbitmq-server", "epmd.socket", "epmd"), "activemq": ("activemq",)}


def install() -> None:
    """Install what is missing. Raises `ServerFailed` with the command to give when we are not root."""
    missing = [package for package in PACKAGES if not _installed(package)]
    if not missing:
        return
    apt_get = ["apt-get", "-o", "DPkg::Lock::Timeout=600"]
    command = [*apt_get, "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        raise ServerFailed(f"not root; run this, then `make bench-peers` again:\n  sudo {' '.join(command)}")
    progress(f"installing {', '.join(missing)}")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    services = [service for package in missing for service in PACKAGES[package]]
    before = {service for service in services if _active(service)}
    for step in ([*apt_get, "update"], command):
        done = subprocess.run(step, env=quiet, capture_output=True, text=True)
        if done.returncode:
            raise ServerFailed(f"{' '.join(step)} failed:\n{done.stderr}")
    for service in services:
        if service not in before and _active(service):
            progress(f"stopping the service {service}")
            subprocess.run(["systemctl", "disable", "--now", service], capture_output=True)


def _installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True).stdout == "installed"


def _active(service: str) -> bool:
    if not shutil.which("systemctl"):
        return False
    return subprocess.run(["systemctl", "is-active", "--quiet", service], capture_output=True).returncode == 0


def try_each() -> None:
    """Start each peer, move messages over each of its protocols, stop it. A fault is `ServerFailed`."""
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as name:
        generator = Generator.build(Path(name))
        for kind in PEERS:
            server = kind(Path(name) / kind.name.lower())
            progress(f"{kind.name} {kind.version()}: ready after {server.start():.1f} s")
            try:
                for protocol in sorted(kind.protocols):
                    workload = next(w for w in WORKLOADS if w.protocol == protocol)
                    found = measure(workload, server, generator, Length(1, warmup=1), 0)
                    if found.faults:
                        raise ServerFailed(f"{kind.name} over {protocol}: {'; '.join(found.faults)}")
                    progress(f"  {protocol}: {found.figures['rate']:,.0f} messages/s")
            finally:
                server.stop()


def main() -> int:
    install()
    if "--install-only" in sys.argv[1:]:
        return 0
    try_each()
    progress("both peers work; `make bench` measures against them")
    return 0


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
