"""`mom callback` with a real broker and a real receiver."""

from pathlib import Path

import pytest
import standardwebhooks

from broker_app.cli import callbacks
from broker_app.cli.base.failures import FAILED, NOT_FOUND, OK, USAGE
from broker_app.features.callbacks.webhooks.host import PAUSES
from tests.cli.conftest import CommandLine
from tests.support.broker_process import StartBroker
from tests.support.hook_server import hook_server
from tests.support.polling import poll


def test_a_callback_is_created_tested_listed_paused_and_removed(
    start_broker: StartBroker, command_line: CommandLine
) -> None:
    mom = command_line
    broker = start_broker(environment={"MOM_WEBHOOK_ALLOW": "127.0.0.1"})
    mom.about(broker)
    with hook_server() as receiver:
        made = mom("callback", "create", "hook", "queue=orders", f"url={receiver.url}", "retry_s=0.1")
        assert made.code == OK, made.err
        facts = dict(made.rows)
        assert (facts["owner"], facts["max_in_flight"]) == ("admin", "5")
        secret = facts["secret"]
        assert "without encryption" not in made.err, "it does not leave this machine"
        assert "secret" not in dict(mom("callback", "show", "hook").rows)

        assert mom("pub", "orders", '{"id": 7}', "-H", "type=order.paid").code == OK
        poll(lambda: receiver.hooks, 20)
        hook = receiver.hooks[0]
        assert hook.headers["ce-type"] == "order.paid"
        assert standardwebhooks.Webhook(secret).verify(hook.body, hook.headers) == {"id": 7}
        poll(lambda: dict(mom("callback", "show", "hook").rows)["accepted"] == "1", 20)
        heads, row = mom("callback", "ls").rows
        listed = dict(zip(heads, row, strict=True))
        assert (listed["state"], listed["breaker"], listed["pending"]) == ("running", "closed", "0")
        heads, row = mom("callback", "pushes", "hook").rows
        assert dict(zip(heads, row, strict=False))["outcome"] == "accepted"

        tested = mom("callback", "test", "hook")
        assert (tested.code, dict(tested.rows)["status"]) == (OK, "204"), tested.err
        receiver.status = 500
        tested = mom("callback", "test", "hook")
        assert (tested.code, "it answered 500" in tested.err) == (FAILED, True), tested.err
        shown = mom("callback", "test", "hook", "-o", "json")
        assert shown.json()["request"]["headers"]["webhook-signature"] == "…"
        receiver.status = 200

        rotated = mom("callback", "rotate", "hook", "-o", "json").json()
        assert rotated["secret"] != secret and rotated["former_secret_until"]
        assert dict(mom("callback", "pause", "hook").rows)["desired"] == "paused"
        assert dict(mom("callback", "resume", "hook").rows)["desired"] == "running"
        assert mom("callback", "push", "hook").code == OK
        assert mom("callback", "push", "hok").code == NOT_FOUND
        assert mom("callback", "rm", "hook", "--yes").code == OK
        assert mom("callback", "ls").rows[1:] == []


def test_secrets_are_read_from_files(
    start_broker: StartBroker, command_line: CommandLine, tmp_path: Path
) -> None:
    mom = command_line
    mom.about(start_broker())
    url = "url=https://hooks.example.org/a"
    refused = mom("callback", "create", "hook", "queue=a", url, "secret=whsec_visible")
    assert (refused.code, "write secret=@FILE" in refused.err) == (USAGE, True)
    assert "whsec_visible" not in refused.err
    secret = tmp_path / "secret"
    secret.write_text("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n")
    made = mom("callback", "create", "hook", "queue=a", url, f"secret=@{secret}", f"authorization=@{secret}")
    assert made.code == OK, made.err
    assert "whsec_" not in made.out
    assert dict(made.rows)["has_authorization"] == "yes"
    assert mom("callback", "set", "hook", 'headers={"X-Team": "shop"}', "queue=", "topic=b.>").code == OK
    assert mom("callback", "create", "bad", "queue=a", "url=nowhere").code == USAGE


@pytest.mark.parametrize(
    ("state", "pause", "until", "shown"),
    [
        ("closed", "", None, "closed"),
        ("open", "", "15:27", "open until 15:27"),
        ("closed", "retry-after", "15:27", "closed; paused until 15:27 (the receiver asked for it)"),
        ("half-open", "no-worker", "15:27", "half-open; paused until 15:27 (no worker takes requests)"),
    ],
)
def test_a_pause_is_not_shown_as_the_work_of_the_breaker(
    state: str, pause: str, until: str | None, shown: str
) -> None:
    assert callbacks._breaker({"host": "h:443", "state": state, "pause": pause, "until": until}) == shown


def test_each_cause_of_a_pause_has_words() -> None:
    assert callbacks._PAUSES.keys() == set(PAUSES)


def test_without_a_layer_a_worker_names_the_setting(command_line: CommandLine) -> None:
    failed = command_line("callback", "worker")
    assert (failed.code, "set MOM_CHANNEL_LAYER to that of the broker" in failed.err) == (USAGE, True)
