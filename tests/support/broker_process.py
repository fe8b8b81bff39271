"""A real broker as a child process, for tests that must see sockets, files and signals."""

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.forked import OTHER_SITE, Forked
from tests.support.patience import patient
from tests.support.ports import reserve_ports

ROOT = Path(__file__).resolve().parents[2]
#: commands of what builds the console, Node among them
BUILD_COMMANDS = ROOT / ".venv-build" / "bin"
READY_S = patient(60.0)
STOP_S = patient(30.0)

_WELCOME = re.compile(
    r"console +(?P<scheme>https?)://(?P<host>[\w.:\[\]]+):(?P<port>\d+)\S*/console/\n"
    r" +STOMP +\S+:(?P<stomp_port>\d+) and (?:stomp\+tls://\S+:(?P<stomp_tls_port>\d+) and )?.*\n"
    r"(?s:.*?) +(?P<state>send|active) +curl .*\n"
)


class BrokerFailed(Exception):
    """The broker did not start or did not stop; the text holds its log."""


class Reply(NamedTuple):
    """An HTTP reply, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class BrokerProcess:
    """`manage.py broker` on loopback, with its data in `data`.

    Its ports are reserved at the first start, so that each later one has the same and clients may reconnect.
    `options` are further arguments of the command, `environment` further variables.
    """

    user = "admin"
    password = "correct horse battery staple"
    host = "127.0.0.1"
    #: what starts a broker, and where
    command: tuple[str, ...] = (sys.executable, "manage.py", "broker")
    folder = ROOT

    def __init__(
        self,
        data: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        program: type[subprocess.Popen[Any]] = Forked,
    ) -> None:
        self.data = data
        #: what starts the process: forked, or by a command of its own, which `ps` shows
        self._program = program
        self.port = 0
        self.stomp_port = 0
        self.stomp_tls_port = 0
        #: how this process speaks TLS with a broker that has a certificate
        self.tls = tls
        self.log_file = data.parent / f"{data.name}.log"
        self._options = options
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MOM_")}
        inherited.pop("DJANGO_SETTINGS_MODULE", None)
        self.environment = {
            **inherited,
            "MOM_ADMIN_PASSWORD": self.password,
            "MOM_DATA": str(data),
            **(environment or {}),
        }
        self._process: subprocess.Popen[Any] | None = None
        self._log_start = 0

    @property
    def url(self) -> str:
        """The address of web and REST, without a slash at its end."""
        return f"{'http' if self.tls is None else 'https'}://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was never started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The output of the broker since its last start."""
        return (
            self.log_file.read_bytes()[self._log_start :].decode(errors="replace")
            if self.log_file.exists()
            else ""
        )

    def start(self, ready_s: float = READY_S, *, standby: bool = False) -> None:
        """Starts the broker and waits until it serves, or is on `standby`. Raises BrokerFailed."""
        assert not self.running, "the broker runs already"
        if not self.port:
            self.port, self.stomp_port = reserve_ports(2)
        ports = ["--host", self.host, "--port", str(self.port), "--stomp-port", str(self.stomp_port)]
        ports += ["--stomp-tls-port", str(self.stomp_tls_port)]
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = self._program(
                [*self.command, *ports, *self._options],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + ready_s
        while not self._serves("live" if standby else "ready"):
            if self._ended_within(0.02):
                raise BrokerFailed(
                    f"the broker ended with {self._process.returncode} instead of starting:\n{self.log}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"the broker was not ready within {ready_s:g} s:\n{self.log}")

    def kill(self) -> None:
        """SIGKILL: the broker ends between two instructions. Nothing happens when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self, stop_s: float = STOP_S) -> int:
        """SIGTERM; the exit code. Raises BrokerFailed when the broker takes longer than `stop_s` seconds."""
        assert self._process is not None, "the broker was never started"
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        if not self._ended_within(stop_s):
            self.kill()
            raise BrokerFailed(f"the broker did not end within {stop_s:g} s of SIGTERM:\n{self.log}")
        return self._process.returncode

    def restart(self) -> None:
        """Stops the broker if it runs, and starts it on the same data and ports."""
        if self.running:
            self.terminate()
        self.start()

    def login_link(self) -> str:
        """A new one-time link that logs the administrator in."""
        return self.login_links(1)[0]

    def login_links(self, count: int) -> list[str]:
        """New one-time links; one process makes all of them."""
        code = (
            "from django.contrib.auth.models import User\n"
            "from broker_app.web import actions\n"
            f"for _ in range({count}):\n"
            "    print('secret', actions.create_login_link(User.objects.get(username=actions.ADMIN)))"
        )
        shell = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
        # A link does not depend on the settings for which an interpreter of its own would be started.
        environment = {
            name: value for name, value in self.environment.items() if not name.startswith(OTHER_SITE)
        }
        with Forked(shell, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as made:
            answer, _ = made.communicate()
        return [f"{self.url}/login/once/{secret}" for secret in re.findall(r"^secret (\S+)$", answer, re.M)]

    def request(
        self, method: str, path: str, body: bytes | None = None, *, json_body: Any = None, **headers: str
    ) -> Reply:
        """An HTTP request as the administrator; `content_type="text/plain"` becomes that header, and an empty
        `authorization` none."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if json_body is not None:
            body, named = json.dumps(json_body).encode(), {"content-type": "application/json", **named}
        credentials = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        named.setdefault("authorization", f"Basic {credentials}")
        if not named["authorization"]:
            del named["authorization"]
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=named)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.tls) as reply:
                return Reply(reply.status, dict(reply.headers.items()), reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, dict(error.headers.items()), error.read())

    def _serves(self, health: str) -> bool:
        """Return whether it has printed its ports, and replies on them that it is ready, or live."""
        welcome = _WELCOME.search(self.log)
        if welcome is None:
            return False
        self.port, self.stomp_port = int(welcome["port"]), int(welcome["stomp_port"])
        self.stomp_tls_port = int(welcome["stomp_tls_port"] or 0)
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/health/{health}", timeout=5, context=self.tls
            ) as reply:
                return bool(reply.status == 200)
        except urllib.error.HTTPError as error:
            return b"store-full" in error.read()  # it serves consumers
        except OSError:
            return False

    def _ended_within(self, seconds: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


#: starts a broker with the given options; see the fixture `start_broker`
StartBroker = Callable[..., BrokerProcess]
