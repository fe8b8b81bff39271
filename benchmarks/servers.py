"""The brokers that are measured: how each is started, spoken to and stopped.

Each runs as our child, in a directory of its own, on the loopback interface, on fixed ports that leave
the broker's default ports 8000 and 61613 free.
"""

from __future__ import annotations

import abc
import base64
import json
import secrets
import shutil
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Container
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmarks.child import Child, ServerFailed

Protocol = Literal["tcp", "ws", "rest"]

REPOSITORY = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
PREFETCH = 256
#: messages of one receive over REST, at most
RECEIVED = 100
START_TIMEOUT = 120.0
_REPLY_TIMEOUT_S = 30.0
_OPENWIRE_PORT = 61616


class Server(abc.ABC):
    """One broker. Use: `start()`, then the option lists for mombench, then `stop()`."""

    name: ClassVar[str]
    protocols: ClassVar[frozenset[Protocol]]
    #: of `Workload.consumer`, those that it can have
    consumers: ClassVar[Container[Protocol | None]] = (None, "tcp")
    reply_options: ClassVar[tuple[str, ...]] = ("--reply-subscribe",)
    not_persistent: ClassVar[tuple[str, ...]] = ("--persistent", "0")
    backlog_share: ClassVar[float] = 1
    batches: ClassVar[Container[int]] = (1,)  # how many messages one POST may bring
    ports: tuple[int, ...]
    #: of these, the ones that another server of ours may use
    shared_ports: Container[int] = ()

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._children: list[Child] = []

    @classmethod
    @abc.abstractmethod
    def installed(cls) -> bool: ...

    @classmethod
    @abc.abstractmethod
    def version(cls) -> str: ...

    @abc.abstractmethod
    def _launch(self) -> Child:
        """Start the processes; the one whose memory and CPU count is returned."""

    @abc.abstractmethod
    def _ready(self) -> bool: ...

    @abc.abstractmethod
    def _stomp_options(self, protocol: Protocol) -> list[str]:
        """Address, login and the broker's own name for prefetch."""

    def start(self, timeout: float = START_TIMEOUT) -> float:
        """Start and wait until it serves; returns the seconds it took. May be called again after `stop`."""
        for port in self.ports:
            if port not in self.shared_ports and _listens(port):
                raise ServerFailed(f"{self.name}: port {port} is in use")
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._main = self._launch()
            return self._main.wait_until(self._ready, timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> float:
        """Stop all processes, the last started first; returns the seconds it took."""
        taken = sum(child.stop() for child in reversed(self._children))
        self._children.clear()
        return taken

    def kill(self) -> None:
        """End the processes with SIGKILL."""
        for child in reversed(self._children):
            child.kill()
        self._children.clear()

    @property
    def stomp_port(self) -> int:
        """Where it accepts STOMP over TCP."""
        return self.ports[0]

    @property
    def pid(self) -> int:
        """Of the process whose memory and CPU count."""
        return self._main.pid

    def check(self) -> None:
        """Raise `ServerFailed` if it has ended."""
        self._main.check()

    def stomp(self, protocol: Protocol) -> list[str]:
        """mombench's options to speak STOMP with this server and to measure its processes."""
        return [*self._stomp_options(protocol), *self._pid_options()]

    def rest_publish(self, queue: str, batch: int) -> list[str]:
        """mombench's options to publish by POST, `batch` messages in each; makes `queue` if needed."""
        raise NotImplementedError(f"{self.name} has no REST interface here")

    def rest_publish_and_receive(self, queue: str) -> list[str]:
        """mombench's options to publish by POST, and to receive and settle messages by POST."""
        raise NotImplementedError(f"{self.name} has no such interface here")

    def _pid_options(self) -> list[str]:
        return ["--server-pid", str(self._main.pid), "--server-tree"]

    def _child(self, command: list[str], env: dict[str, str]) -> Child:
        log = self.directory / f"{Path(command[0]).name}.log"
        child = Child(self.name, command, log, cwd=self.directory, env=env)
        self._children.append(child)
        return child


class Mom(Server):
    name = "MOM"
    protocols = frozenset({"tcp", "ws", "rest"})
    consumers = (None, "tcp", "rest")
    batches = range(1, 1001)
    ports = (8130, 61713)

    #: further ones of `mom up`
    options: tuple[str, ...] = ()
    #: the checkout that is started, and the interpreter that starts it
    repository = REPOSITORY
    python = sys.executable

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.password = secrets.token_urlsafe(16)

    @classmethod
    def installed(cls) -> bool:
        return (cls.repository / "manage.py").exists()

    @classmethod
    def version(cls) -> str:
        project = tomllib.loads((cls.repository / "pyproject.toml").read_text())["project"]
        revision = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=cls.repository, capture_output=True, text=True
        ).stdout.strip()
        python = ".".join(map(str, sys.version_info[:3]))
        return f"{project['version']} ({revision or 'no revision'}), Python {python}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def stomp_port(self) -> int:
        return self.ports[1]

    @property
    def url(self) -> str:
        """The address of web and REST."""
        return f"http://{HOST}:{self.ports[0]}"

    @property
    def authorization(self) -> dict[str, str]:
        """The header with the login of the administrator."""
        pair = base64.b64encode(f"admin:{self.password}".encode()).decode()
        return {"authorization": f"Basic {pair}"}

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """The decoded reply to a request for a path below /api/v1/. Raises `ServerFailed` for a refusal, and
        OSError without a reply."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.authorization, "content-type": "application/json", **headers}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_REPLY_TIMEOUT_S) as reply:
                return json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise ServerFailed(f"{self.name}: {method} {path}: {error.read().decode()}") from error

    def published(self, queue: str) -> int:
        """The number of messages that a queue has got."""
        rows = self.ask("GET", f"queues?q={queue}")["items"]
        return sum(row["published"] for row in rows if row["name"] == queue)

    def bridge_to(self, other: Mom, name: str) -> None:
        """Forward by a bridge of that name to another broker. Raises `ServerFailed`."""
        settings = {"hostname": HOST, "port": other.ports[1], "user": "admin", "password": other.password}
        self.ask("PUT", f"bridges/{name}", settings)

    def _launch(self) -> Child:
        web, stomp = self.ports
        command = [self.python, str(self.repository / "manage.py"), "broker", "--host", HOST]
        command += ["--port", str(web), "--stomp-port", str(stomp), "--data", str(self.data)]
        return self._child([*command, *self.options], {"MOM_ADMIN_PASSWORD": self.password})

    def _ready(self) -> bool:
        return _http_status(f"{self.url}/api/v1/health/ready") == 200

    def _stomp_options(self, protocol: Protocol) -> list[str]:
        web, stomp = self.ports
        url = f"ws://{HOST}:{web}/ws" if protocol == "ws" else f"tcp://{HOST}:{stomp}"
        login = ["--login", "admin", "--passcode", self.password, "--host", "/"]
        return ["--url", url, *login, "--sub-header", f"prefetch-count:{PREFETCH}"]

    def _rest_options(self) -> list[str]:
        login = ["--login", "admin", "--passcode", self.password]
        return ["--http-url", self.url, "--http-basic", *login, *self._pid_options()]

    def rest_publish_and_receive(self, queue: str) -> list[str]:
        path = f"/api/v1/queues/{queue}"
        return [
            *(*self._rest_options(), "--http-send", f"POST {path}/messages"),
            *("--http-recv", f"POST {path}/receive"),
            *("--http-recv-body", f'{{"max":{RECEIVED},"wait_s":1,"ack":"auto"}}'),
        ]

    def rest_publish(self, queue: str, batch: int) -> list[str]:
        options = self._rest_options()
        path = f"/api/v1/queues/{queue}/messages"
        if batch == 1:
            return [*options, "--http-header", "Content-Type: text/plain", "--http-send", f"POST {path}"]
        return [
            *options,
            *("--http-header", "Content-Type: application/json", "--http-send", f"POST {path}/batch"),
            *("--http-send-body", '[%{{"body":"%p"}%}]', "--http-batch", str(batch)),
        ]


class RabbitMQ(Server):
    """Debian's rabbitmq-server with management, STOMP and STOMP over WebSocket; the rest as it comes."""

    name = "RabbitMQ"
    protocols = frozenset({"tcp", "ws", "rest"})
    reply_options = ()  # makes the reply queue from the header alone
    # Its default for a message; the header persistent:false would declare another, transient queue.
    not_persistent = ()
    ports = (61723, 15684, 15682, 4379, 25682)  # STOMP, WebSocket, management, epmd, distribution
    node = "bench@localhost"
    #: further lines of rabbitmq.conf
    configuration = ""
    _program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

    @classmethod
    def installed(cls) -> bool:
        return cls._program.exists()

    @classmethod
    def version(cls) -> str:
        return f"{_debian_version('rabbitmq-server')}, Erlang {_debian_version('erlang-base')}"

    def _launch(self) -> Child:
        stomp, web_stomp, management, epmd, distribution = self.ports
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp = none\n"
            f"stomp.listeners.tcp.1 = {HOST}:{stomp}\n"
            f"web_stomp.tcp.ip = {HOST}\nweb_stomp.tcp.port = {web_stomp}\n"
            f"management.tcp.ip = {HOST}\nmanagement.tcp.port = {management}\n{self.configuration}"
        )
        (self.directory / "enabled_plugins").write_text(
            "[rabbitmq_management,rabbitmq_stomp,rabbitmq_web_stomp].\n"
        )
        (self.directory / "rabbitmq-env.conf").touch()
        here = str(self.directory)
        # epmd is a child of ours as well: the one that Erlang starts by itself would outlive the run.
        names = {"ERL_EPMD_PORT": str(epmd), "ERL_EPMD_ADDRESS": HOST, "HOME": here}
        if not _listens(epmd):
            mapper = self._child(["epmd"], names)
            mapper.wait_until(lambda: _listens(epmd), 10)
        env = names | {
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_CONF_ENV_FILE": f"{here}/rabbitmq-env.conf",
            "RABBITMQ_CONFIG_FILE": f"{here}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{here}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{here}/mnesia",
            "RABBITMQ_LOG_BASE": f"{here}/log",
            "RABBITMQ_PID_FILE": f"{here}/pid",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }
        return self._child([str(self._program)], env)

    def _ready(self) -> bool:
        stomp, web_stomp, management, *_ = self.ports
        overview = f"http://{HOST}:{management}/api/overview"
        return _listens(stomp) and _listens(web_stomp) and _http_status(overview, "guest:guest") == 200

    def _stomp_options(self, protocol: Protocol) -> list[str]:
        stomp, web_stomp, *_ = self.ports
        url = f"ws://{HOST}:{web_stomp}/ws" if protocol == "ws" else f"tcp://{HOST}:{stomp}"
        login = ["--login", "guest", "--passcode", "guest", "--host", "/"]
        return ["--url", url, *login, "--sub-header", f"prefetch-count:{PREFETCH}"]

    def rest_publish(self, queue: str, batch: int) -> list[str]:
        management = f"http://{HOST}:{self.ports[2]}"
        status = _http_status(
            f"{management}/api/queues/%2f/{queue}", "guest:guest", method="PUT", body=b'{"durable":true}'
        )
        if status not in (201, 204):
            raise ServerFailed(f"RabbitMQ did not make the queue {queue}: HTTP {status}")
        body = (
            f'{{"properties":{{"delivery_mode":2}},"routing_key":"{queue}",'
            '"payload":"%p","payload_encoding":"string"}'
        )
        return [
            *("--http-url", management, "--http-basic", "--login", "guest", "--passcode", "guest"),
            *("--http-header", "Content-Type: application/json", *self._pid_options()),
            *("--http-send", "POST /api/exchanges/%2f/amq.default/publish", "--http-send-body", body),
            *("--http-expect", '"routed":true'),
        ]


class ActiveMQ(Server):
    """Debian's activemq: its activemq.xml with one connector line added, its JVM options."""

    name = "ActiveMQ"
    protocols = frozenset({"tcp"})
    backlog_share = 0.1  # it fills at a third of the others' rate; a tenth shows as much
    ports = (61724, _OPENWIRE_PORT)  # STOMP, and OpenWire as Debian's file has it
    _home = Path("/usr/share/activemq")
    _configuration = Path("/etc/activemq/instances-available/main")

    @classmethod
    def installed(cls) -> bool:
        return (cls._home / "bin/activemq.jar").exists() and shutil.which("java") is not None

    @classmethod
    def version(cls) -> str:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()[0]
        return f"{_debian_version('activemq')}, {java}"

    def _launch(self) -> Child:
        (self.directory / "data").mkdir(exist_ok=True)
        (self.directory / "tmp").mkdir(exist_ok=True)
        original = (self._configuration / "activemq.xml").read_text()
        openwire = original.replace(f":{_OPENWIRE_PORT}", f":{self.ports[1]}")
        (self.directory / "activemq.xml").write_text(with_stomp_connector(openwire, self.ports[0]))
        shutil.copy(self._configuration / "log4j2.properties", self.directory)
        here = self.directory
        command = ["java", *self._debian_jvm_options(), *_JAVA_17_OPENINGS]
        command += [f"-Dactivemq.classpath={here}", f"-Dactivemq.home={self._home}"]
        command += [f"-Dactivemq.base={here}", f"-Dactivemq.conf={here}", f"-Dactivemq.data={here / 'data'}"]
        command += [f"-Dlog4j2.configurationFile={here / 'log4j2.properties'}"]
        command += [f"-Djava.io.tmpdir={here / 'tmp'}"]
        command += ["-jar", str(self._home / "bin/activemq.jar"), "start"]
        command += [f"xbean:file:{here / 'activemq.xml'}"]
        return self._child(command, {"HOME": str(here)})

    def _debian_jvm_options(self) -> list[str]:
        for line in (self._home / "activemq-options").read_text().splitlines():
            if line.startswith("ACTIVEMQ_OPTS="):
                return line.partition("=")[2].strip('"').split()
        raise ServerFailed("activemq-options does not set ACTIVEMQ_OPTS")

    def _ready(self) -> bool:
        return _listens(self.ports[0])

    def _stomp_options(self, protocol: Protocol) -> list[str]:
        return [
            *("--url", f"tcp://{HOST}:{self.ports[0]}"),
            *("--sub-header", f"activemq.prefetchSize:{PREFETCH}"),
        ]


PEERS: tuple[type[Server], ...] = (RabbitMQ, ActiveMQ)
SERVERS: tuple[type[Server], ...] = (Mom, *PEERS)

# What Debian's start script opens for a Java later than 8.
_JAVA_17_OPENINGS = (
    "--add-reads=java.xml=java.logging",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.security",
            "java.base/java.net",
            "java.base/java.lang",
            "java.base/java.util",
            "java.naming/javax.naming.spi",
            "java.rmi/sun.rmi.transport.tcp",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
        )
    ),
)


def with_stomp_connector(activemq_xml: str, port: int) -> str:
    """ActiveMQ's configuration with a STOMP connector on the loopback interface added."""
    end = "</transportConnectors>"
    if activemq_xml.count(end) != 1:
        raise ServerFailed("activemq.xml has no single <transportConnectors> element")
    connector = f'<transportConnector name="stomp" uri="stomp://{HOST}:{port}"/>'
    return activemq_xml.replace(end, f"    {connector}\n        {end}")


def _debian_version(package: str) -> str:
    query = ["dpkg-query", "--show", "--showformat", "${Version}", package]
    return subprocess.run(query, capture_output=True, text=True).stdout or "unknown version"


def _listens(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _http_status(url: str, login: str = "", *, method: str = "GET", body: bytes | None = None) -> int:
    """The HTTP status of one request; 0 without an answer. `login` is `user:password`."""
    request = urllib.request.Request(url, data=body, method=method)
    if login:
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as answer:
        return answer.code
    except OSError:
        return 0
