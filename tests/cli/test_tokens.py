"""Tokens made on the machine of the broker."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, OK, REFUSED, UNREACHABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess


def test_a_token_is_accepted_until_it_is_revoked(broker: BrokerProcess, command_line: CommandLine) -> None:
    data = ("--data", str(broker.data))
    created = command_line("token", "create", "laptop", *data)
    secret = created.out.strip()
    assert created.code == OK
    assert secret.startswith("mom_")
    assert "shown only this once" in created.err

    given = {"MOM_URL": broker.url, "MOM_TOKEN": secret}
    assert command_line("queue", "ls", environment=given).code == OK
    again = command_line("token", "create", "laptop", *data)
    assert (again.code, again.out) == (CONFLICT, "")

    listed = command_line("token", "ls", *data).rows
    assert listed[0] == ["name", "user", "prefix", "created", "expires", "last_used", "grants"]
    assert [row[:3] for row in listed[1:]] == [["laptop", "admin", secret[:8]]]

    assert command_line("token", "revoke", "laptop", *data).code == OK
    assert command_line("queue", "ls", environment=given).code == REFUSED
    assert command_line("token", "revoke", "laptop", *data).code == NOT_FOUND


def test_a_token_is_made_by_the_broker_that_runs_and_not_by_another_process(
    mom: CommandLine, command_line: CommandLine, broker: BrokerProcess
) -> None:
    """A process with Django took three seconds, and was refused by a mirrored broker that began to serve."""
    at = {"MOM_URL": "", "MOM_DATA": str(broker.data)}
    assert command_line("token", "create", "near", environment=at).code == OK
    entry = mom("audit", "ls", "--kind", "tokens", "-o", "json").json()[0]
    found = {name: entry[name] for name in ("author", "via", "address", "name")}
    assert found == {"author": "admin", "via": "cli", "address": "127.0.0.1", "name": "admin/near"}
    secret = (broker.data / "local_secret").read_text().strip()
    data_plane = {"MOM_TOKEN": secret, "MOM_URL": broker.url}
    assert command_line("get", "orders", environment=data_plane).code == REFUSED, (
        "for the configuration alone"
    )
    assert (broker.data / "local_secret").stat().st_mode & 0o077 == 0


def test_mom_url_names_another_broker_than_that_of_the_directory(
    command_line: CommandLine, broker: BrokerProcess
) -> None:
    """The token was made at the wrong broker."""
    at = {"MOM_DATA": str(broker.data), "MOM_URL": "http://127.0.0.1:1"}
    made = command_line("token", "create", "elsewhere", environment=at)
    assert (made.code, made.out, "http://127.0.0.1:1" in made.err) == (UNREACHABLE, "", True), made.err
    listed = command_line("token", "ls", "--data", str(broker.data), environment=at)
    assert "elsewhere" not in listed.out, "--data on the command line is the directory"
    assert listed.code == OK, listed.err


def test_a_token_with_grants_has_only_those_rights(broker: BrokerProcess, command_line: CommandLine) -> None:
    data = ("--data", str(broker.data))
    created = command_line("token", "create", "sender", "--grant", "send@/queue/a,/queue/b.>", *data)
    assert created.code == OK, created.err
    given = {"MOM_URL": broker.url, "MOM_TOKEN": created.out.strip()}
    assert command_line("pub", "b.c", "hello", environment=given).code == OK
    assert command_line("pub", "c", "hello", environment=given).code == REFUSED
    assert command_line("get", "b.c", environment=given).code == REFUSED
    shown = command_line("token", "ls", "-o", "json", *data).json()
    sender = next(row for row in shown if row["name"] == "sender")
    assert sender["grants"] == [{"rights": ["send"], "destinations": ["/queue/a", "/queue/b.>"]}]


def test_wrong_use(broker: BrokerProcess, command_line: CommandLine, tmp_path: Path) -> None:
    data = ("--data", str(broker.data))
    assert command_line("token", "create", "x", "--user", "nobody", *data).code == NOT_FOUND
    soon = command_line("token", "create", "soon", "--expires", "1h", *data)
    assert soon.code == OK, soon.err
    expires = datetime.fromisoformat(command_line("token", "ls", *data, "-o", "json").json()[-1]["expires"])
    assert timedelta(minutes=50) < expires - datetime.now(UTC) < timedelta(minutes=61)
    for wrong in ("-1", "soon", "5s"):
        assert command_line("token", "create", "x", "--expires", wrong, *data).code == USAGE
    for grant in ("send", "sned@/queue/a", "send@orders"):
        assert command_line("token", "create", "x", "--grant", grant, *data).code == USAGE
    elsewhere = command_line("token", "ls", environment={"MOM_DATA": str(tmp_path)})
    assert elsewhere.code == NOT_FOUND
    assert str(tmp_path) in elsewhere.err
    assert list(tmp_path.glob("secret*")) == []


def test_a_token_of_an_unknown_user_is_refused_as_without_a_broker_and_the_nearest_user_named(
    broker: BrokerProcess, command_line: CommandLine
) -> None:
    made = command_line("token", "create", "x", "--user", "amdin", "--data", str(broker.data))
    assert (made.code, made.out) == (NOT_FOUND, ""), made.err
    assert "there is no user amdin; did you mean admin?" in made.err
    assert "fix:   `mom user ls` lists those that exist" in made.err


def test_an_empty_token_is_none(broker: BrokerProcess, command_line: CommandLine) -> None:
    """It was shown as a login, whose refusal took its time and counted as a guess."""
    given = {"MOM_URL": broker.url, "MOM_TOKEN": ""}
    refused = command_line("pub", "orders", "x", environment=given)
    assert (refused.code, "mom token create" in refused.err) == (REFUSED, True), refused.err
    assert "CONNECT has no login" in refused.err


def test_tokens_of_a_remote_broker_are_created_listed_and_revoked(
    mom: CommandLine, broker: BrokerProcess
) -> None:
    """Without its data: over REST."""
    named = ("--url", mom.environment["MOM_URL"])
    made = mom("token", "create", "afar", "--grant", "send@/queue/afar", *named)
    assert made.code == OK, made.err
    given = {"MOM_URL": broker.url, "MOM_TOKEN": made.out.strip()}
    assert mom("pub", "afar", "x", environment=given).code == OK
    assert mom("get", "afar", environment=given).code == REFUSED
    assert mom("token", "create", "afar", *named).code == CONFLICT
    listed = next(row for row in mom("token", "ls", "-o", "json", *named).json() if row["name"] == "afar")
    assert (listed["user"], listed["grants"]) == (
        broker.user,
        [{"rights": ["send"], "destinations": ["/queue/afar"]}],
    )
    assert mom("token", "revoke", "afar", *named).code == OK
    assert mom("pub", "afar", "x", environment=given).code == REFUSED
    assert mom("token", "revoke", "afar", *named).code == NOT_FOUND
