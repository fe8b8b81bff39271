import pytest

from broker_app.cli.base import failures
from broker_app.net.problems import PROBLEMS


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        ("invalid", failures.USAGE),
        ("bad-destination", failures.USAGE),
        ("not-found", failures.NOT_FOUND),
        ("not-authenticated", failures.REFUSED),
        ("not-allowed", failures.REFUSED),
        ("lease-lost", failures.CONFLICT),
        ("precondition-failed", failures.CONFLICT),
        ("not-active", failures.UNREACHABLE),
        ("queue-full", failures.FAILED),
        ("store-full", failures.FAILED),
        ("busy", failures.FAILED),
        ("too-large", failures.FAILED),
        ("some-later-problem", failures.FAILED),
    ],
)
def test_exit_codes(problem: str, code: int) -> None:
    assert failures.of_problem(problem, "no", "here").code == code


@pytest.mark.parametrize(
    ("detail", "fix"),
    [
        ("there is no queue /queue/ordrs; did you mean orders?", "`mom queue ls` lists those that exist"),
        ("there is no bridge west", "`mom bridge ls` lists those that exist"),
        ("there is no message '1' in queue 'a'", "`mom browse QUEUE` lists messages with their ids"),
        ("there is no such thing", ""),
    ],
)
def test_what_does_not_exist_is_answered_with_the_command_that_lists_what_does(detail: str, fix: str) -> None:
    assert failures.of_problem("not-found", detail, "here").fix == fix


def test_every_problem_ends_in_failure() -> None:
    assert failures.OK not in {failures.of_problem(name, "", "").code for name in PROBLEMS}


def test_a_failure_shows_what_where_and_fix() -> None:
    failure = failures.Failure(failures.FAILED, "it broke", where="there", fix="glue it")
    assert str(failure).splitlines() == ["mom: it broke", "  where: there", "  fix:   glue it"]
