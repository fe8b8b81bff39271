"""The message of a broker that has started, and the files that it leaves in its data directory for `mom`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from broker_app.base.settings.roles import is_loopback
from broker_app.config import ADDRESS, Config
from broker_app.net.server.listeners import Ports

#: file of the data directory with the one-time link, where no terminal shows it
LOGIN_LINK = "login_link"


@dataclass(frozen=True, slots=True)
class Welcome:
    """`password` is the one that was made up and not used yet, `link` the secret of a link that logs in."""

    config: Config
    ports: Ports
    password: str | None
    password_file: Path
    link: str | None

    @property
    def url(self) -> str:
        """The web address of the node as seen from its own machine."""
        return f"{'http' if self.config.tls_cert is None else 'https'}://{self._host}:{self.ports.web}"

    @property
    def page(self) -> str:
        """The page that a person begins with."""
        return f"{self._site}/login/once/{self.link}" if self.link else f"{self._site}/console/"

    def leave_files(self, *, at_terminal: bool) -> None:
        """Write down where the broker is, and the link that no terminal shows."""
        write_private(self.config.data / ADDRESS, self.url)
        link_file = self.config.data / LOGIN_LINK
        if self.link and not at_terminal:
            write_private(link_file, self.page)
        else:
            link_file.unlink(missing_ok=True)

    def lines(self, *, at_terminal: bool) -> list[str]:
        """Addresses and login of a node that was just started. A configured password is never shown, and a
        secret only at a terminal: other output may be kept in a log."""
        mom, url = self.config, self._site
        shown = self.password if at_terminal else None
        user = "" if mom.anonymous else f"-u admin:{shown} " if shown else "-u admin "
        lines = ["", f"MOM is ready: broker {mom.name}, data in {mom.data.resolve()}"]
        if mom.anonymous:
            lines += ["", "  *** ANONYMOUS MODE: anybody may do anything. Only for development. ***", ""]
        lines += [f"  console   {url}/console/", f"  STOMP     {self._stomp()}"]
        if shown:
            lines.append(f"  admin     the password is {shown} (shown until it has been used)")
        elif self.password:
            lines.append(f"  admin     the password is in {self.password_file.resolve()}")
        if self.link:
            where = self.page if at_terminal else f"the link in {(mom.data / LOGIN_LINK).resolve()}"
            lines.append(f"  log in    {where} (once, within ten minutes)")
        send = f"curl {user}-H 'Content-Type: text/plain' -d hello {url}/api/v1/queues/hello/messages"
        lines.append(f"  send      {send}")
        return [*lines, *self._warnings(), ""]

    def standby_lines(self) -> list[str]:
        """Addresses of a broker that was just started and is on standby."""
        mom, url = self.config, self._site
        return [
            "",
            f"MOM is on standby: broker {mom.name} (role {mom.role}), data in {mom.data.resolve()}",
            f"  console   {url}/console/",
            f"  STOMP     {self._stomp()}",
            f"  active    curl {url}/failover-list",
            *self._warnings(),
            "",
        ]

    @property
    def stomp_address(self) -> str:
        """HOST:PORT of STOMP over TCP."""
        return f"{self._host}:{self.ports.stomp}"

    def _warnings(self) -> Iterator[str]:
        """The listeners that other machines reach without encryption, and how each is closed."""
        mom = self.config
        if is_loopback(mom.host):
            return
        if mom.tls_cert is None and not mom.behind_tls:
            yield (
                f"  warning   passwords and messages are sent to {mom.host} without encryption: "
                "set --tls-cert, or --console-url https://… where a proxy ends TLS"
            )
        elif self.ports.stomp is not None:
            port = self.ports.stomp
            yield f"  warning   port {port} takes STOMP without encryption, too: --stomp-port -1 closes it"

    @property
    def _site(self) -> str:
        """The address of console and API, below the path that a proxy serves."""
        return f"{self.url}{self.config.base_path}"

    @property
    def _host(self) -> str:
        """The node as seen from its own machine, as it is written in an address."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.config.host, self.config.host)
        return f"[{host}]" if ":" in host else host

    def _stomp(self) -> str:
        """The addresses of STOMP."""
        places = []
        if self.ports.stomp is not None:
            places.append(self.stomp_address)
        if self.ports.stomp_tls is not None:
            places.append(f"stomp+tls://{self._host}:{self.ports.stomp_tls}")
        places.append(f"{self.url.replace('http', 'ws', 1)}/ws")
        return " and ".join(places)


def write_private(path: Path, line: str) -> None:
    """Replace a file, whole or not at all; only its user can read it."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(line + "\n")
    new.replace(path)
