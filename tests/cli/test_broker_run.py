"""`mom broker run` is `mom up` with the options of OpenMOM's command line."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_app.cli.base.failures import FAILED, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.patience import patient
from tests.support.ports import reserve_port
from tests.support.samples import sample


@contextmanager
def running(mom: CommandLine, *options: str, last_line: str = "send", **more: str) -> Iterator[str]:
    """The output of a broker when it is ready; it runs until the end of the block."""
    with mom.popen("broker", "run", *options, "--port", "0", environment=more) as broker:
        assert broker.stdout is not None
        welcome = ""
        for line in broker.stdout:
            welcome += line
            if last_line in line:
                break
        else:
            assert broker.stderr is not None
            raise AssertionError(broker.stderr.read())
        try:
            yield welcome
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=patient(30))
    assert broker.returncode == OK


def stomp_port(welcome: str) -> int:
    found = re.search(r"STOMP +[\w.]+:(\d+)", welcome)
    assert found is not None, welcome
    return int(found[1])


def test_options_of_openmom_are_settings(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text('/config/mom = {"max_connections": 7, "stomp_port": 1, "name": "other"}\n')
    port = reserve_port()
    options = ("-s", "B1", "-r", "1", "-c", str(file), "-p", "ncacn_ip_tcp", "--data", str(tmp_path / "data"))
    with running(command_line, *options, "-e", f"localhost:{port}") as welcome:
        assert "broker B1" in welcome
        assert stomp_port(welcome) == port
        token = command_line(
            "token", "create", "t", environment={"MOM_DATA": str(tmp_path / "data")}
        ).out.strip()
        named = {"MOM_DATA": str(tmp_path / "data"), "MOM_TOKEN": token}
        shown = command_line("config", "show", "--sources", "-o", "tsv", environment=named)
        rows = {row[0]: row[1:] for row in shown.rows}
        assert rows["max_connections"][0] == "7", shown.out
        assert (rows["host"][0], rows["role"][0]) == ("localhost", "1")


def test_without_an_endpoint_a_free_port_is_taken_unless_a_setting_has_one(
    command_line: CommandLine, tmp_path: Path
) -> None:
    port = reserve_port()
    with running(command_line, "-s", "B1", "--data", str(tmp_path / "a")) as welcome:
        assert stomp_port(welcome) not in (0, 61613)
    with running(command_line, "--data", str(tmp_path / "b"), MOM_STOMP_PORT=str(port)) as welcome:
        assert stomp_port(welcome) == port


def test_a_mirror_follows_the_main_of_its_name_and_takes_over(
    command_line: CommandLine, tmp_path: Path
) -> None:
    shared = ("-s", "B1", "--journal", f"file:{tmp_path}/shared", "--lease-s", "1")
    with running(command_line, *shared, "-r", "-1", "--data", str(tmp_path / "b")) as alone:
        assert "MOM is ready: broker B1" in alone, "a mirror that is started alone serves"
        with running(
            command_line, *shared, "-r", "1", "--data", str(tmp_path / "a"), last_line="active"
        ) as main:
            assert "MOM is on standby: broker B1 (role 1)" in main
    with running(command_line, *shared, "-r", "1", "--data", str(tmp_path / "a")) as main:
        assert "MOM is ready" in main
        with running(
            command_line, *shared, "-r", "-1", "--data", str(tmp_path / "b"), last_line="active"
        ) as mirror:
            assert "MOM is on standby: broker B1 (role -1)" in mirror
            found = re.search(r"curl (http://\S+)/failover-list", mirror)
            assert found is not None
            assert b'"role":-1' in urllib.request.urlopen(f"{found[1]}/failover-list").read().replace(
                b" ", b""
            )


WRONG_OPTIONS = [
    (
        ("-r", "0"),
        "MOM_ROLE: 0 is not a role: a broker is a main or a mirror; write 1 for a main broker, -1 for",
    ),
    (
        ("-r", "2"),
        "MOM_ROLE: 2 is not a role: a second broker of the same name is a mirror of the first; write 1",
    ),
    (
        ("-r", "-2"),
        "MOM_NAME: a callback broker (role -2) has the name REcallback: write -s REcallback",
    ),
    (
        ("-s", "cb", "-r", "-2"),
        "MOM_NAME: a callback broker (role -2) has the name REcallback: write -s REcallback",
    ),
    (
        ("-s", "REcallback", "-r", "-2", "--host", "0.0.0.0"),
        "MOM_HOST: a callback broker serves the programs of its machine, and not of 0.0.0.0",
    ),
    (
        ("-s", "REcallback", "-r", "-2", "--journal", "file:/srv/mom"),
        "MOM_JOURNAL: a callback broker keeps nothing, and shares no journal",
    ),
    (
        ("-s", "REcallback", "-r", "-2", "-p", "ncalrpc;ncacn_np"),
        "-p: the protocols 'ncalrpc;ncacn_np' do not include TCP/IP",
    ),
    (
        ("-r", "-3"),
        "MOM_ROLE: -3 is reserved, as all negative roles except -1 and -2 are; write 1 for a main broker",
    ),
    (("-r", "main"), "MOM_ROLE: 'main' is not a number"),
    (
        ("-r", "-1"),
        "MOM_ROLE: -1 is a mirror, which shares the journal of its main: set --journal (MOM_JOURNAL)",
    ),
    (
        ("-s", "REcallback", "-r", "1"),
        "MOM_NAME: REcallback is the name of callback brokers, whose role is -2: write -r -2",
    ),
    (("-s", "a b"), "MOM_NAME: 'a b' is not of the form"),
    (("-e", "B1"), "-e: 'B1' is not an endpoint"),
    (("-e", "failover:(tcp://x:1)"), "-e: a broker cannot listen at 'failover:(tcp://x:1)'"),
    (("-e", "localhost:65536"), "write PORT or HOST:PORT, with a port up to 65535"),
    (("-p", "ncalrpc"), "-p: the protocols 'ncalrpc' do not include TCP/IP"),
    (("-x", "routes.cnf"), "-x: files of routes cannot be read"),
    (("-c", "absent.config"), "absent.config"),
]


@pytest.mark.parametrize(("options", "sentence"), sample(WRONG_OPTIONS, 6))
def test_wrong_options_are_refused_before_anything_is_written(
    command_line: CommandLine, tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    data = tmp_path / "data"
    refused = command_line("broker", "run", *options, "--data", str(data), "--port", "0")
    assert refused.code == USAGE, refused
    assert sentence in refused.err
    assert not data.exists()


#: that `mom up` refuses without other settings
ROLES = ("0", "2", "-1", "-2")


@pytest.mark.parametrize("role", sample(ROLES, 1))
def test_mom_up_and_variables_have_the_same_roles(
    command_line: CommandLine, tmp_path: Path, role: str
) -> None:
    by_option = command_line("up", "--role", role, cwd=tmp_path)
    by_variable = command_line("up", environment={"MOM_ROLE": role}, cwd=tmp_path)
    by_openmom = command_line("broker", "run", "-r", role, cwd=tmp_path)
    said = [
        result.err.splitlines()[0].replace("--role:", "MOM_ROLE:")
        for result in (by_option, by_variable, by_openmom)
    ]
    assert said == said[:1] * 3
    assert {result.code for result in (by_option, by_variable, by_openmom)} == {USAGE}


def test_the_help_shows_a_main_and_its_mirror(command_line: CommandLine) -> None:
    shown = command_line("broker", "run", "--help")
    assert shown.code == OK
    assert "mom broker run -s B1 -r 1 -e 61613 --journal file:/srv/B1" in shown.out
    assert "mom broker run -s B1 -r -1" in shown.out
    assert "run " in command_line("broker", "--help").out


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("failover:(tcp://x:1)", "a broker cannot listen at 'failover:(tcp://x:1)' (--host): failover"),
        ("no.such.host.invalid", "this machine has no address no.such.host.invalid (--host)"),
    ],
)
def test_a_host_at_which_no_broker_can_listen_is_named(
    command_line: CommandLine, tmp_path: Path, host: str, sentence: str
) -> None:
    refused = command_line("up", "--host", host, "--data", str(tmp_path / "data"), "--port", "0")
    assert refused.code == FAILED
    assert sentence in refused.err


def test_a_file_of_openmom_declares_reflexes(command_line: CommandLine, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running(command_line, "-s", "B1", "-c", "CBdefault.cnf", "--data", data):
        token = command_line("token", "create", "t", environment={"MOM_DATA": data}).out.strip()
        named = {"MOM_DATA": data, "MOM_TOKEN": token}
        shown = command_line("reflex", "ls", "-o", "json", environment=named)
    assert shown.code == OK, shown
    (row,) = json.loads(shown.out)
    assert (row["name"], row["function"], row["state"]) == ("CBdefault.cnf:2", "REenableCallbacks", "running")


def test_a_file_of_openmom_with_errors_is_refused(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "filters.CNF"
    file.write_text("F stock lib\n")
    refused = command_line("broker", "run", "-c", str(file), "--data", str(tmp_path / "data"), "--port", "0")
    assert refused.code == FAILED, refused
    assert "filters.CNF:1:12: a pair is missing at the end" in refused.err
    missing = command_line("broker", "run", "-c", "CBdefaults.cnf", cwd=tmp_path)
    assert "did you mean CBdefault.cnf, which comes with MOM?" in missing.err
