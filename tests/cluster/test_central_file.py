"""The central configuration file of a cluster, from a file and over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from broker_app.config import ConfigError
from broker_app.features.cluster.configuration import central_file, properties, settings

OWN = {"MOM_CLUSTER_SECRET": "a secret of these brokers"}
ALL = """
# brokers of the plant
imq.cluster.brokerlist = b1.example:7676,\\
    b2.example
imq.cluster.masterbroker b1.example
imq.cluster.transport: tcp
imq.cluster.port=7676
imq.autocreate.queue=false
imq.autocreate.topic=true
imq.cluster.nomasterbroker=
imq.system.max_count=-1
imq.message.max_size=10m
max_attempts = 5
imq.autocreate.reaptime=60
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.properties"
    path.write_text(ALL)
    return path


def refusal(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        settings.load(OWN | {"MOM_CLUSTER_URL": f"file:{file}"})
    return str(refused.value).splitlines()


def test_a_properties_file_has_comments_continuations_and_three_separators() -> None:
    text = "# one\n! two\na=1\nb : 2\n  c 3 4 \nd\\=e = \\u0041\\tx\n\nf=1,\\\n   2,\\\n   3\ng\nh=x\\\\\ni=2"
    assert [tuple(entry) for entry in properties.parse(text)] == [
        (3, "a", "1"),
        (4, "b", "2"),
        (5, "c", "3 4"),
        (6, "d=e", "A\tx"),
        (8, "f", "1,2,3"),
        (11, "g", ""),
        (12, "h", "x\\"),
        (13, "i", "2"),
    ]
    assert [tuple(entry) for entry in properties.parse("a=1\\")] == [(1, "a", "1")]  # fmt: skip


def test_all_brokers_have_the_settings_of_the_central_file(file: Path) -> None:
    read = settings.load(OWN | {"MOM_CLUSTER_URL": f"file:{file}"})
    assert read.cluster == ("b1.example:7676", "b2.example")
    assert (read.cluster_keeper, read.cluster_port, read.auto_create_queues) == ("b1.example", 7676, False)
    assert (read.max_messages, read.max_body_bytes, read.max_attempts) == (0, 10 * 1024 * 1024, 5)
    assert read.queue_reap == 60
    assert read.sources["cluster"] == "cluster.properties:3"
    assert read.sources["max_attempts"] == "cluster.properties:13"


def test_names_of_activemq_are_settings(file: Path) -> None:
    file.write_text(
        "networkConnector=static:(tcp://b1.example:7676)\ndiscoveryUri=multicast://default\n"
        "updateClusterClients=true\ncluster_port=7676\nnetworkTTL=3\nduplex=true\n"
    )
    read = settings.load(OWN | {"MOM_CLUSTER_URL": f"file:{file}"})
    assert read.network_connector == "static:(tcp://b1.example:7676)"
    assert (read.discovery_uri, read.update_cluster_clients) == ("multicast://default", True)


def test_values_of_a_broker_win_but_its_list_is_added(file: Path, tmp_path: Path) -> None:
    own_file = tmp_path / "zero.config"
    own_file.write_text(
        '/config/mom/max_attempts = 7\n/config/mom/cluster_url = "file://' + str(file) + '"\n'
    )
    read = settings.load(
        OWN | {"MOM_CONFIG_FILE": str(own_file), "MOM_CLUSTER_PORT": "5000", "MOM_CLUSTER": "b3.example"}
    )
    assert (read.max_attempts, read.cluster_port) == (7, 5000)
    assert read.cluster == ("b1.example:7676", "b2.example", "b3.example")
    assert (read.sources["cluster"], read.sources["max_attempts"]) == ("MOM_CLUSTER", "zero.config:1")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "imq.cluster.brokrlist=b1",
            "there is no property imq.cluster.brokrlist; did you mean imq.cluster.bro",
        ),
        ("max_atempts=1", "there is no property max_atempts; did you mean max_attempts?"),
        ("imq.brokerid=b1", "imq.brokerid is different at each broker: set name there"),
        (
            "imq.cluster.hostname=b1",
            "imq.cluster.hostname is different at each broker: set cluster_host there",
        ),
        (
            "imq.autocreate.topic=false",
            "imq.autocreate.topic is always true here, and 'false' is not possible",
        ),
        (
            "cluster_keeper=b1\nimq.cluster.nomasterbroker=true",
            "imq.cluster.nomasterbroker contradicts the keeper in cluster.properties:1",
        ),
        ("imq.cluster.ha=true", "a member of an enhanced cluster also needs cluster_id, "),
        ("imq.persist.store=jdbc", "the journal is to be in a store, which has no address here"),
        ("imq.persist.jdbc.dbVendor=mysql", "imq.persist.jdbc.* is no setting here: set journal"),
        ("imq.service.activelist=jms", "imq.service.activelist is no setting here: stomp_port and"),
        ("conduitSubscriptions=false", "conduitSubscriptions is always true here, and 'false' is not possi"),
        ("excludedDestinations=a", "excludedDestinations is no setting here: set local_only of these queu"),
        (
            "anonymous=true",
            "anonymous cannot be in a central file, which has limits, times, ports and the list",
        ),
        ("cluster_secret=x", "cluster_secret cannot be in a central file"),
        ("max_attempts=0", "max_attempts 0 must be at least 1"),
        ("cluster=b1:x", "'b1:x' is no address of a broker"),
        ("imq.cluster.port=1\ncluster_port=2", "cluster_port is set in cluster.properties:1 already"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(file: Path, line: str, sentence: str) -> None:
    (told, *_) = refusal(file, line)
    number = 1 + line.count("\n")
    assert told.startswith(f"cluster.properties:{number}: {sentence}")


def test_all_errors_of_the_file_are_reported_together(file: Path) -> None:
    assert len(refusal(file, "a=1\nb=2\nmax_attempts=3\n")) == 2


def test_a_file_that_cannot_be_read_is_named(file: Path, tmp_path: Path) -> None:
    def told(url: str) -> str:
        with pytest.raises(ConfigError) as refused:
            central_file.read(url)
        return str(refused.value)

    assert (
        told(f"file:{tmp_path}/none")
        == f"the central file file:{tmp_path}/none cannot be read: there is no file none"
    )
    assert told("http://[b1/x").startswith("the central file http://[b1/x cannot be read: ")
    assert "write file:/PATH with the whole path" in told("file:cluster.properties")
    file.write_text("#" * 60_001)
    assert "is longer than 60,000 bytes" in told(f"file:{file}")
    file.chmod(0o666)
    assert "chmod" in told(f"file:{file}")


class WebServer(ThreadingHTTPServer):
    """Answers each request with `body`."""

    daemon_threads = True
    body = ALL
    status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/etc/cluster.properties"


class _Handler(BaseHTTPRequestHandler):
    server: WebServer

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def web_server() -> Iterator[WebServer]:
    with WebServer(("127.0.0.1", 0), _Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as found:
        yield found


def test_the_file_comes_over_http_bounded_and_an_error_says_why(server: WebServer) -> None:
    environment = OWN | {"MOM_CLUSTER_URL": server.url, "MOM_CLUSTER_HOST": "b1.example"}
    assert settings.load(environment).cluster == ("b1.example:7676", "b2.example")
    server.status = 404
    with pytest.raises(ConfigError, match="the central file"):
        settings.load(environment)
    server.status, server.body = 200, "#" * 100_000
    with pytest.raises(ConfigError, match="is longer than 60,000 bytes"):
        settings.load(environment)
