"""The wheel, installed in another folder: it has all that a broker reads, and its console answers."""

import email
import http.cookiejar
import re
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from django.urls import reverse

from broker_app.web.console.urls import urlpatterns
from tests.installation.installed_broker import Environment, InstalledBroker, build_wheel
from tests.support.broker_process import ROOT
from tests.support.checkout import files

PACKAGES = ("broker_app", "mom_client", "mom_pipeline", "mom_site", "pyspark_mom")
#: folders of a checkout that are in `mom_site` of a wheel
SITE = ("templates", "static", "locale")
#: what no running broker reads
SOURCES = {".po", ".pyc"}

#: something of each kind, which its pages name; by what the names of their addresses begin with
MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "queue": ("queues/orders", {}),
    "topic": ("topics/prices", {}),
    "rule": ("rules/johns", {"conditions": "/event/queue == orders", "users": ["admin"]}),
    "mask": ("masks/cards", {"destination": "/queue/orders", "headers": ["card"]}),
    "user": ("users/john", {"password": "the password of john"}),
    "group": ("groups/office", {}),
    "broker": ("brokers/other", {}),
    "bridge": ("bridges/west", {"hostname": "127.0.0.1", "port": 1}),
    "callback": ("callbacks/hook", {"url": "http://127.0.0.1:1/", "queue": "orders"}),
    "reflex": (
        "reflexes/slow",
        {"service": "orders", "library": "mom", "function": "limit_rate", "options": {"rate": 9}},
    ),
    "alert": ("alerts/rules/oldest", {"condition": "oldest", "threshold": 900}),
    "pipeline": ("pipeline/runs/west", {"job": "reconcile", "run_id": "2", "host": "spark-1"}),
}
#: parts of addresses, and what follows them, where it is no such name
PARTS: dict[str, list[Any]] = {"version": [1], "definitions-file": ["json"]}
QUERIES = {"comparison": "?old=1&new=2", "rollback": "?to=1", "tokens-remove": "?name=admin/laptop"}
#: what this broker does not have, and a page that nobody has
MISSING = {"connection", "job", "orphan-remove", "reconciliation-report", "service"}
NOWHERE = "/console/no-such-page"

FIRST_MESSAGES = """
import sys, mom_client.blocking
with mom_client.blocking.connect(sys.argv[1], login=sys.argv[2], passcode=sys.argv[3]) as mom:
    with mom.subscribe("/queue/greetings") as messages:
        message = messages.get(timeout_s=20)
        print(message.text, mom_client.__file__)
        mom.ack(message)
"""


@pytest.fixture(scope="module")
def wheel(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment") / "venv", wheel)


@pytest.fixture(scope="module")
def broker(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledBroker]:
    """A broker of the wheel."""
    process = InstalledBroker(environment, tmp_path_factory.mktemp("elsewhere"))
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def browser(broker: InstalledBroker) -> urllib.request.OpenerDirector:
    """A browser without scripts, logged in by the link that the broker leaves for its first user."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    with opener.open((broker.data / "login_link").read_text().strip()) as page:
        assert page.url.startswith(f"{broker.url}/console/")
    return opener


def test_the_wheel_has_every_file_that_a_broker_reads(wheel: Path) -> None:
    built = [
        *ROOT.glob("static/console/dist/**/*.*"),
        *(path for form in ("br", "gz") for path in ROOT.glob(f"static/console/*.{form}")),
        *ROOT.glob("locale/**/*.mo"),
    ]
    names = {*files(*PACKAGES, *SITE), *(path.relative_to(ROOT).as_posix() for path in built)}
    expected = {
        f"mom_site/{name}" if name.startswith(SITE) else name
        for name in names - {"mom_client/pyproject.toml"}
        if Path(name).suffix not in SOURCES
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        told: Message = email.message_from_bytes(archive.read(metadata))
        assert (
            archive.read(metadata.replace("METADATA", "licenses/LICENSE")) == (ROOT / "LICENSE").read_bytes()
        )
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Author"]
    assert set(told.get_all("Provides-Extra", ())) == {"postgres", "workers", "pipeline", "pipeline-java"}
    assert "Programming Language :: Python :: 3.11" in told.get_all("Classifier", ())
    # A page of an index has no files next to it.
    assert re.findall(r"\]\((?!https?:)[^)]*\)", str(told.get_payload())) == []


def test_messages_go_through_an_installed_broker(environment: Environment, broker: InstalledBroker) -> None:
    assert broker.request("POST", "/api/v1/queues/greetings/messages", b"from the wheel").status == 201
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    received = subprocess.run(
        [environment.python, "-c", FIRST_MESSAGES, address, broker.user, broker.password],
        cwd=broker.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    text, _, place = received.stdout.strip().rpartition(" ")
    assert text == "from the wheel"
    assert environment.python.parent.parent in Path(place).parents


def test_every_page_of_an_installed_broker_answers(
    broker: InstalledBroker, browser: urllib.request.OpenerDirector
) -> None:
    for path, content in MADE.values():
        assert broker.request("PUT", f"/api/v1/{path}", json_body=content).status < 300, path
    assert broker.request("POST", "/api/v1/tokens", json_body={"name": "laptop"}).status == 201
    answers = {address: _status(browser, broker.url + address) for address in _addresses()}
    absent = {NOWHERE, *(reverse(f"console:{name}") for name in MISSING)}
    assert {address: code for address, code in answers.items() if code != 200} == dict.fromkeys(absent, 404)


def _addresses() -> Iterator[str]:
    yield from ("/", "/docs/", "/docs/problems/", "/login/", "/admin/", NOWHERE)
    for pattern in urlpatterns:
        if hasattr(vars(pattern.callback)["view_class"], "get"):
            name = str(pattern.name)
            address = reverse(f"console:{name}", args=PARTS.get(name, []))
            yield address + QUERIES.get(name, _query(name))


def _query(name: str) -> str:
    """The part of an address that names what was made of its kind."""
    made = (path for kind, (path, _) in MADE.items() if name.startswith(kind))
    return next((f"?name={path.rpartition('/')[2]}" for path in made), "")


def _status(browser: urllib.request.OpenerDirector, address: str) -> int:
    try:
        with browser.open(address, timeout=30) as page:
            return int(page.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_an_installed_console_has_its_styles_scripts_and_languages(
    broker: InstalledBroker, browser: urllib.request.OpenerDirector
) -> None:
    german = urllib.request.Request(f"{broker.url}/console/", headers={"Accept-Language": "de"})
    with browser.open(german) as page:
        text = page.read().decode()
    assert "Warteschlangen" in text
    loaded = re.findall(r'<(?:link rel="(?:stylesheet|icon)[^>]*href|script[^>]*src)="([^"]+)"', text)
    assert any(".css" in address for address in loaded)
    assert any("/console/words/de/" in address for address in loaded)
    for address in loaded:
        with browser.open(urljoin(f"{broker.url}/console/", address)) as reply:
            assert reply.status == 200 and reply.read()


def test_a_broker_without_its_console_does_not_start(environment: Environment, tmp_path: Path) -> None:
    """As from a wheel that was built before the console."""
    (manifest,) = environment.python.parents[1].rglob("mom_site/static/console/dist/manifest.json")
    away = manifest.rename(manifest.with_suffix(".away"))
    try:
        refused = subprocess.run(
            [environment.mom, "up", "--port", "0", "--stomp-port", "0"],
            cwd=tmp_path,
            env=InstalledBroker(environment, tmp_path).environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        away.rename(manifest)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"the console is not complete: {manifest} is missing" in refused.stderr
    assert "`make build`" in refused.stderr
    assert not (tmp_path / "data").exists()
