"""`mom pipeline schedule`: lines for cron and units for systemd."""

from __future__ import annotations

import shlex
from configparser import ConfigParser
from typing import Any

import pytest

from broker_app.cli.base.failures import OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.samples import sample


def scheduled(command_line: CommandLine, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = command_line("pipeline", "schedule", *words, "-o", "json").json()
    return found


def unit(text: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return parser


def test_a_job_is_started_by_cron_or_by_a_timer_with_the_same_command(command_line: CommandLine) -> None:
    found = scheduled(command_line, "archive", "--out", "my archive", "--messages")
    assert found["cron"].startswith("*/10 * * * * /")
    command = shlex.split(found["cron"].removeprefix("*/10 * * * * "))
    home = command_line.environment["HOME"]
    assert command[1:] == ["pipeline", "run", "archive", "--out", f"{home}/my archive", "--messages", "-q"]
    service, timer = found["systemd"]["mom-archive.service"], found["systemd"]["mom-archive.timer"]
    assert shlex.split(unit(service)["Service"]["ExecStart"]) == command
    assert unit(service)["Service"]["Type"] == "oneshot"
    assert unit(timer)["Timer"]["OnCalendar"] == "*:00/10"
    assert command_line(*command[1:-1], "--every", "0s").code == USAGE, "it is a command of mom"


def test_a_job_that_stays_is_a_service_that_is_restarted(command_line: CommandLine) -> None:
    found = scheduled(command_line, "statistics", "--every", "2s", "--name", "live")
    assert found["cron"].startswith("@reboot /")
    (service,) = (unit(text) for text in found["systemd"].values())
    assert list(found["systemd"]) == ["mom-live.service"]
    assert service["Service"]["Restart"] == "on-failure"
    assert service["Install"]["WantedBy"] == "default.target"


def test_signs_that_cron_and_systemd_take_for_others_are_escaped(command_line: CommandLine) -> None:
    found = scheduled(command_line, "statistics", "--destinations", "100%.$x")
    assert r"'100\%.$x'" in found["cron"]
    (service, _) = found["systemd"].values()
    assert "'100%%.$$x'" in service


def test_the_lines_are_printed_with_what_to_do_with_them(command_line: CommandLine) -> None:
    printed = command_line("pipeline", "schedule", "compact", "--out", ".")
    assert printed.code == OK
    assert printed.out.startswith("# cron, every night: crontab -e\n23 4 * * * /")
    assert "# systemd: ~/.config/systemd/user/mom-compact.timer\n[Unit]\n" in printed.out
    assert printed.out.endswith("systemctl --user enable --now mom-compact.timer\n")


def test_the_broker_is_in_the_lines_and_a_password_is_not(command_line: CommandLine) -> None:
    broker = ("--url", "https://broker:8000", "--token-file", "/etc/mom/token")
    found = scheduled(command_line, "statistics", *broker)
    assert (
        "mom --url https://broker:8000 --token-file /etc/mom/token pipeline run statistics" in found["cron"]
    )
    refused = command_line("pipeline", "schedule", "statistics", "--url", "https://admin:secret@broker:8000")
    assert (refused.code, "has a password" in refused.err) == (USAGE, True)


def test_a_run_that_depends_on_variables_of_the_shell_is_reported(command_line: CommandLine) -> None:
    of_shell = command_line(
        "pipeline", "schedule", "statistics", "--credential", "READER", environment={"MOM_URL": "https://a"}
    )
    assert "cron and systemd do not know READER, MOM_URL of this shell" in of_shell.err
    assert of_shell.code == OK


def test_only_files_become_absolute_even_if_other_words_are_the_same(command_line: CommandLine) -> None:
    """Whatever files and folders the working directory has."""
    words = (
        "archive",
        "--name",
        "archive",
        "--out",
        "archive",
        "--state=archive",
        "--credential",
        "./archive",
    )
    found = scheduled(command_line, *words, "--token-file", "archive")
    home = command_line.environment["HOME"]
    assert shlex.split(found["cron"].removeprefix("*/10 * * * * "))[1:-1] == [
        "--token-file", f"{home}/archive", "pipeline", "run",
        "archive", "--name", "archive", "--out", f"{home}/archive", f"--state={home}/archive",
        "--credential", f"{home}/archive",
    ]  # fmt: skip


NOT_SCHEDULED = [
    ((), "missing argument"),
    (("nothing",), "there is no job 'nothing'"),
    (("archive",), "missing option '--out'"),
    (("archive", "--out", "/a", "--evry", "5s"), "no such option: --evry"),
    (("replay", "--archive", "/tmp"), "replay is no job for a schedule"),
]


@pytest.mark.parametrize(("words", "what"), sample(NOT_SCHEDULED, 2))
def test_what_cannot_be_run_is_not_scheduled(
    command_line: CommandLine, words: tuple[str, ...], what: str
) -> None:
    tried = command_line("pipeline", "schedule", *words)
    assert (tried.code, what in tried.err, tried.out) == (USAGE, True, ""), tried.err
