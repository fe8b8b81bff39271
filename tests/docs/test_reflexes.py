"""The examples of docs/reflexes.md run as they stand."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from broker_app.cli import reflexes as commands
from broker_app.cli.base.failures import OK, REFUSED
from broker_app.cli.configuration.resource_types import REFLEXES
from broker_app.net.rest.openapi.document import document
from broker_app.reflex import cnf
from broker_app.reflex.api import GROUP
from broker_app.reflex.declaration import KINDS
from broker_app.reflex.libraries import library_loader
from broker_app.reflex.refusals import CODES, FUNCTION_FAILED
from broker_app.reflex.registration import Registration
from broker_app.reflex.shipped.table import IN_BROKER
from broker_app.reflex.testing import Harness
from tests.cli.conftest import CommandLine
from tests.support.broker_process import ROOT, StartBroker

TEXT = (ROOT / "docs" / "reflexes.md").read_text(encoding="utf-8")


def snippets(section: str, language: str) -> list[str]:
    """The snippets of a section with its parts."""
    heading = re.search(rf"^(#+) {re.escape(section)}\n", TEXT, re.MULTILINE)
    assert heading is not None, section
    text = re.split(rf"^#{{1,{len(heading[1])}}} ", TEXT[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def module_of(name: str, source: str, folder: Path) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The library of the section about writing one."""
    monkeypatch.setitem(sys.modules, "orders", None)
    return module_of("orders", snippets("Write a library", "python")[0], tmp_path)


@pytest.mark.process
def test_the_example_of_five_minutes_runs(start_broker: StartBroker, tmp_path: Path) -> None:
    for folder in ("home", "reflexes"):
        (tmp_path / folder).mkdir()
    section = "A reflex in five minutes"
    (library,), (up, declare) = snippets(section, "python"), snippets(section, "sh")
    (refused,) = snippets(section, "console")
    (tmp_path / "reflexes" / "orders.py").write_text(library)
    mom = CommandLine(tmp_path / "home")
    mom.about(start_broker(*up.replace("reflexes\n", f"{tmp_path / 'reflexes'}\n").split()[2:]))
    for line in declare.splitlines():
        found = mom(*shlex.split(line)[1:])
        assert found.code == OK, (line, found.err)
    assert dict(zip(*(row for row in found.rows[:2]), strict=True))["calls"] == "1"
    command, shown = refused.removeprefix("$ ").splitlines()
    large = mom(*shlex.split(command)[1:])
    assert large.code == REFUSED
    assert shown in large.err
    problem = json.loads(snippets("Refusals", "json")[0])
    assert problem["detail"] in large.err


def test_the_file_is_read_and_its_functions_exist(orders: ModuleType) -> None:
    (text,) = snippets("Files", "cnf")
    (error,) = snippets("Files", "text")
    found = cnf.parse(text, "filters.cnf")
    assert [one.kind for one in found] == ["service", "arrival", "delivery", "registration", "deregistration"]
    chain = Harness(text, libraries={"orders": orders})
    answered = chain.serve("desk", b"hello", {"type": "question"})
    assert (answered.answer, answered.answer_headers) == (b"at your service", {"in-reply-to": "hello"})
    arrived = chain.arrive("orders.paid", b"1", {"tenant": "acme"})
    assert [one.destination for one in arrived.messages] == ["/queue/acme"]
    assert chain.arrive("orders.paid", b"x" * 1001).facts == {"retry_s": 60}
    assert chain.register(Registration("stock")).marks == {"callbacks"}
    chain.deregister(Registration("desk"))
    assert orders.known == {}
    with pytest.raises(cnf.CnfError) as raised:
        cnf.parse("\n\nF stock lib", "filters.cnf", "/srv/mom/filters.cnf")
    assert str(raised.value) == error.strip()


@pytest.mark.usefixtures("orders")
def test_the_tests_of_the_example_pass(tmp_path: Path) -> None:
    (test,) = snippets("Test it", "python")
    module = module_of("test_orders", test, tmp_path)
    tests = [one for name, one in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 2
    for run in tests:
        run()


def test_a_package_offers_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = snippets("Write a library", "toml")
    project = tomllib.loads(text)["project"]
    ((name, module),) = project["entry-points"][GROUP].items()
    installed = tmp_path / f"acme_orders-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}\n")
    (tmp_path / f"{module}.py").write_text(snippets("Write a library", "python")[0])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, module, raising=False)
    assert library_loader.load(name, "").functions.keys() == {"answer", "only_small", "ended"}


def shipped() -> list[str]:
    return snippets("Reflexes that come with MOM", "cnf")


def test_each_reflex_that_comes_with_mom_has_an_example() -> None:
    named = {(one.library, one.function) for text in shipped() for one in cnf.parse(text)}
    functions = {
        (library, function) for library, functions in IN_BROKER.items() for function in functions
    } | {("mom-schema", "check_schema")}
    assert {(library_loader.canonical(library), function) for library, function in named} == functions
    options = {
        option.name for table in IN_BROKER.values() for one in table.values() for option in one.options
    }
    assert all(re.search(rf"^\|.*`{option}`", TEXT, re.MULTILINE) for option in options)


def test_the_examples_of_those_do_what_is_written(tmp_path: Path) -> None:
    active = "stomp://b1:61613"
    chain = Harness("\n".join(shipped()), data=tmp_path, main_active=active, clock=lambda: 0.0)
    veto = chain.register(Registration("stock"))
    assert (veto.accepted, veto.reason, veto.facts) == (False, "MAIN_ACTIVE", {"active": active})
    headers = {"region": "eu", "cust": "7", "debug": "x"}
    result = chain.arrive("orders.new", b'{"id": 1}', headers, user="anna")
    assert result.headers == {"region": "eu", "route": "eu/orders.new", "customer": "7"}
    assert "orders.new" in next((tmp_path / "audit").iterdir()).read_text()
    assert "does not match the schema" in chain.arrive("orders.new", b"{}").reason
    assert "is not JSON" in chain.arrive("orders.new", b"{").reason
    (copy,) = chain.arrive("stock", b"1", {"persistent": "true"}).messages
    assert copy.destination == "/queue/storeAndForward:b2/queue/stock"
    results = [chain.arrive("orders.new", b'{"id": 1}', user="bob").accepted for _ in range(201)]
    assert results == [True] * 200 + [False]


def test_commands_requests_fields_and_codes_are_those_that_exist() -> None:
    shown = CliRunner().invoke(commands.app, ["--help"]).output
    existing = set(re.findall(r"^│ (\w+)  ", shown, re.MULTILINE))
    section = TEXT.partition("## Commands and API")[2]
    assert existing == {"create", "set", "edit", "rm", "ls", "stats", "show", "test", "restart"}
    assert all(re.search(rf"`(mom reflex )?{name}\b", section) for name in existing)
    assert set(REFLEXES.fields) == set(re.findall(r"`(\w+)`", _first_cells(section, "| field | default")))
    assert {*CODES.values(), FUNCTION_FAILED} == set(re.findall(r"^\| `([A-Z_]+)`", TEXT, re.MULTILINE))
    assert all(f"| `{kind}` |" in TEXT for kind in KINDS)
    requests = re.findall(r"(/api/v1/reflex-[\w/{}-]+)", section)
    assert len(requests) == 4
    assert set(requests) <= set(document()["paths"])


def _first_cells(text: str, heading: str) -> str:
    rows = text.partition(heading)[2].partition("\n\n")[0].splitlines()[2:]
    return " ".join(row.split("|")[1] for row in rows)
