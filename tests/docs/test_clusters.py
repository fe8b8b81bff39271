"""The examples of docs/clusters.md: `mom cluster demo` runs as it stands, and so do the commands for brokers
that are started by hand; their starts fit."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker_app import config
from broker_app.features.cluster.configuration import settings
from tests.docs.test_readme import run
from tests.support.broker_process import ROOT
from tests.support.children import Child
from tests.support.mom_in_path import mom_in_path
from tests.support.patience import patient
from tests.support.polling import poll

pytestmark = pytest.mark.process

TEXT = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
DEMO = "mom cluster demo\n"
(SECRET,) = (snippet for snippet in SNIPPETS if snippet.startswith("openssl"))
(USE,) = (snippet for snippet in SNIPPETS if "mom pub" in snippet)
#: of the brokers by hand that its commands use
PORTS = {"8001": 0, "8003": 2}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Of a terminal that knows nothing of other brokers."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("MOM_", "XDG_"))}
    found.pop("DJANGO_SETTINGS_MODULE", None)
    with mom_in_path() as folder:
        path = f"{folder}:{found['PATH']}"
        yield found | {"HOME": str(tmp_path), "PATH": path, "PYTHONPATH": str(ROOT)}


def test_each_broker_of_the_example_by_hand_has_the_secret_and_the_other_two_in_its_list(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """What they do is in the test of the demo, which starts them with the same options."""
    run(["bash", "-euc", SECRET], environment, tmp_path)
    starts = [shlex.split(snippet) for snippet in SNIPPETS if snippet.startswith("mom up")]
    assert not [unknown for words in starts if (unknown := config.unknown_option(words[2:], ()))]
    given = [config.options_in(words[2:]) for words in starts]
    files = [tmp_path / options.pop("MOM_CLUSTER_SECRET_FILE") for options in given]
    brokers = [
        settings.load(options | {"MOM_CLUSTER_SECRET_FILE": str(file)})
        for options, file in zip(given, files, strict=True)
    ]
    assert {broker.cluster_secret for broker in brokers} == {files[0].read_text().strip()}
    addresses = [settings.own_address(broker, broker.cluster_port or 0) for broker in brokers]
    for broker, address in zip(brokers, addresses, strict=True):
        assert {*settings.others(broker, broker.cluster_port or 0), address} == set(addresses)
    assert len({broker.name for broker in brokers}) == len(set(addresses)) == 3


def test_the_example_of_multicast_announces_and_listens() -> None:
    examples = re.findall(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (words,) = (shlex.split(example) for example in examples if "--discovery-uri" in example)
    assert not config.unknown_option(words[3:], ())
    options = config.options_in(words[3:]) | {"MOM_CLUSTER_SECRET": "x" * 16}
    found = settings.multicast(settings.load(options))
    assert found is not None
    assert found.announces is not None
    assert found.listens == (found.announces,)
    assert (found.announces.host, found.announces.interface) == ("239.255.2.3", options["MOM_HOST"])


@contextlib.contextmanager
def demo(environment: dict[str, str], folder: Path) -> Iterator[str]:
    """The demo as it is documented, and what it says when it runs. Ctrl-C ends it."""
    words = [sys.executable, "-m", "broker_app.cli", *shlex.split(DEMO)[1:]]
    log = folder / "demo.log"
    with (
        log.open("wb") as into,
        Child(words, cwd=folder, env=environment, stdout=into, stderr=into) as process,
    ):
        try:
            poll(lambda: process.poll() is not None or "Ctrl-C" in log.read_text(), 60)
            assert process.poll() is None, log.read_text()
            yield log.read_text()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(patient(30)) == 0


@pytest.mark.slow
def test_the_demo_prints_commands_that_send_to_one_broker_and_receive_at_another(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with demo(environment, tmp_path) as told:
        send, receive = re.findall(r"^  (mom .*)$", told, re.MULTILINE)
        run(["bash", "-euc", send], environment, tmp_path)
        assert run(["bash", "-euc", receive], environment, tmp_path).endswith("\thello\n")
        ports = [int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)/console/", told)]
        assert [_listens(port) for port in ports] == [True] * 3
        by_hand = re.sub(r":(\d+)", lambda port: f":{ports[PORTS[port[1]]]}", USE)
        used = run(["bash", "-euc", by_hand], environment, tmp_path / "cluster-demo")
        assert used.endswith("\tone thousand bolts\n")
        assert {"b2", "b3"} <= set(used.split()), "the status names the other brokers"
    assert [_listens(port) for port in ports] == [False] * 3


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)", TEXT))))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
