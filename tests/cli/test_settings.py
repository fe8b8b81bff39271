"""Declaring, changing, pausing and removing destinations, against a real broker."""

from typing import Any

import pytest

from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, OK, REFUSED, USAGE, Failure
from broker_app.cli.configuration.destination_settings import shown, values_of
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.samples import sample


def facts(broker: BrokerProcess, queue: str) -> Any:
    return broker.request("GET", f"/api/v1/queues/{queue}").json()


def publish(broker: BrokerProcess, queue: str) -> int:
    return broker.request("POST", f"/api/v1/queues/{queue}/messages", b"1").status


def test_a_queue_is_created_once(broker: BrokerProcess, mom: CommandLine) -> None:
    made = mom(
        "queue", "create", "once", "max_messages=10", "max_bytes=10m", "dead_letter_expired=yes", "-o", "json"
    )
    assert made.code == OK, made.err
    assert made.json() == {
        "address": "/queue/once",
        "max_messages": 10,
        "max_bytes": 10 * 1024 * 1024,
        "dead_letter_expired": True,
    }
    again = mom("queue", "create", "once")
    assert again.code == CONFLICT and "mom queue set" in again.err
    assert mom("queue", "create", "once", "--idempotent").code == OK
    assert facts(broker, "once")["settings"]["max_messages"]["value"] == 10


def test_settings_are_changed_and_reset(broker: BrokerProcess, mom: CommandLine) -> None:
    assert publish(broker, "change") == 201
    assert mom("queue", "set", "change", "max_messages=5", "retry_delay_s=0.5").code == OK
    changed = mom("queue", "set", "change", "max_messages=", "limit_behavior=REJECT_NEWEST", "-o", "json")
    assert changed.json() == {
        "address": "/queue/change", "retry_delay_s": 0.5, "limit_behavior": "REJECT_NEWEST",
    }  # fmt: skip
    shown = dict(mom("queue", "show", "change").rows)
    assert (shown["depth"], shown["declared"], shown["retry_delay_s"]) == ("1", "yes", "0.5 (own)")
    assert "max_messages" not in shown
    assert mom("queue", "set", "nowhere", "max_messages=5").code == NOT_FOUND


UNKNOWN = ["max_mesages=1", "max_messages", "max_messages=many", "paused=some", "auto_create=perhaps"]


@pytest.mark.parametrize("setting", sample(UNKNOWN, 2))
def test_an_unknown_setting_is_wrong_use(mom: CommandLine, setting: str) -> None:
    refused = mom("queue", "create", "wrong", setting)
    assert refused.code == USAGE
    assert setting.partition("=")[0] in refused.err


def test_a_queue_is_paused_and_resumed(broker: BrokerProcess, mom: CommandLine) -> None:
    assert publish(broker, "pause") == 201
    assert mom("queue", "pause", "pause").code == OK
    assert publish(broker, "pause") == 503
    assert mom("pub", "pause", "x").code == REFUSED
    assert mom("queue", "pause", "pause", "CONSUMERS").code == OK
    assert publish(broker, "pause") == 201
    assert mom("queue", "pause", "pause", "nobody").code == USAGE
    row = next(row for row in mom("queue", "ls", "--name", "pause", "-o", "json").json())
    assert row["paused"] == "consumers"
    assert mom("queue", "resume", "pause").code == OK
    assert facts(broker, "pause")["paused"] == "none"
    assert mom("queue", "pause", "nowhere").code == NOT_FOUND


def test_a_pattern_covers_many(broker: BrokerProcess, mom: CommandLine) -> None:
    assert mom("queue", "set", "many.>", "paused=producers").code == OK
    assert mom("queue", "create", "many.one").code == OK
    assert publish(broker, "many.one") == 503
    still = mom("queue", "resume", "many.one")
    assert still.code == CONFLICT and "/queue/many.>" in still.err
    assert mom("queue", "resume", "many.>").code == OK
    assert publish(broker, "many.one") == 201
    assert mom("queue", "rm", "many.>", "--yes").code == OK


def test_a_pattern_is_shown(mom: CommandLine) -> None:
    assert mom("queue", "set", "shown.>", "limit_behavior=remove_oldest").code == OK
    shown = mom("queue", "show", "shown.>")
    assert (shown.code, shown.rows) == (
        OK, [["address", "/queue/shown.>"], ["limit_behavior", "REMOVE_OLDEST"]],
    )  # fmt: skip
    assert mom("topic", "show", "nothing.>").code == NOT_FOUND


def test_durable_subscriptions_are_listed_and_deleted(broker: BrokerProcess, mom: CommandLine) -> None:
    with mom.popen("sub", "/topic/subs.eu", "--durable", "kept", "-n", "1") as leaving:
        assert leaving.stderr is not None and "listening" in leaving.stderr.readline()
        assert mom("topic", "forget", "kept", "--yes").code == CONFLICT
        assert mom("pub", "/topic/subs.eu", "1").code == OK
        leaving.communicate(timeout=patient(30))
    assert mom("pub", "/topic/subs.eu", "2").code == OK
    (row,) = mom("topic", "subs", "subs.eu", "-o", "json").json()
    assert (row["name"], row["state"], row["backlog"]) == ("kept", "offline", 1)
    assert "kept" in mom("topic", "subs", "-o", "id").out.splitlines()
    assert mom("topic", "forget", "kept").code == USAGE
    assert mom("topic", "forget", "kept", "--dry-run").code == OK
    assert mom("topic", "forget", "kept", "--yes").code == OK
    assert mom("topic", "forget", "kept", "--yes").code == NOT_FOUND
    assert mom("topic", "forget", "kept", "--yes", "--idempotent").code == OK


def test_a_queue_is_removed(broker: BrokerProcess, mom: CommandLine) -> None:
    publish(broker, "remove")
    unconfirmed = mom("queue", "rm", "remove")
    assert unconfirmed.code == USAGE and "1 waiting" in unconfirmed.err
    assert mom("queue", "rm", "remove", "--dry-run").code == OK
    refused = mom("queue", "rm", "remove", "--yes")
    assert refused.code == CONFLICT and "1 waiting" in refused.err
    assert mom("queue", "rm", "remove", "--yes", "--force").code == OK
    assert mom("queue", "rm", "remove", "--yes").code == NOT_FOUND
    assert mom("queue", "rm", "remove", "--yes", "--idempotent").code == OK


def test_topics(broker: BrokerProcess, mom: CommandLine) -> None:
    assert mom("topic", "create", "news.eu", "max_message_bytes=1k").code == OK
    assert mom("topic", "set", "news.eu", "paused=producers").code == OK
    assert mom("topic", "set", "news.eu", "paused=consumers").code == USAGE
    (row,) = mom("topic", "ls", "--name", "news.eu", "-o", "json").json()
    assert (row["name"], row["declared"], row["paused"]) == ("news.eu", True, "producers")
    shown = dict(mom("topic", "show", "news.eu").rows)
    assert shown["max_message_bytes"] == "1024 (own)"
    assert mom("topic", "rm", "news.eu", "--yes").code == OK
    assert mom("topic", "show", "news.eu").code == NOT_FOUND


def test_sizes_and_times_are_written_with_their_units(mom: CommandLine) -> None:
    made = mom("queue", "create", "units", "max_bytes=5MB", "retry_delay_s=2s", "retention_s=5m")
    assert made.code == OK, made.err
    shown = mom("queue", "show", "units", "-o", "json").json()["settings"]
    found = {name: shown[name]["value"] for name in ("max_bytes", "retry_delay_s", "retention_s")}
    assert found == {"max_bytes": 5_000_000, "retry_delay_s": 2, "retention_s": 300}
    for wrong, form in (
        ("max_bytes=5 apples", "a size such as 65536, 64MB or 64MiB"),
        ("retention_s=soon", "2s, 5m"),
    ):
        refused = mom("queue", "set", "units", wrong)
        assert (refused.code, form in refused.err) == (USAGE, True), refused.err
    refused = mom("bridge", "create", "west", "retry_s=soon")
    assert (refused.code, "a time such as 2s, 5m" in refused.err) == (USAGE, True), refused.err
    assert mom("pub", "units", "later", "--delay", "1h").code == OK
    assert mom("queue", "show", "units", "-o", "json").json()["delayed"] == 1
    refused = mom("pub", "units", "later", "--delay", "soon")
    assert (refused.code, "2s, 5m" in refused.err) == (USAGE, True), refused.err


def test_settings_of_the_broker_take_units_as_well(mom: CommandLine) -> None:
    done = mom("config", "set", "full_wait=1m", "max_bytes_per_second=1MiB", "-o", "json")
    assert done.code == OK, done.err
    assert done.json()["settings"] == {"full_wait": 60, "max_bytes_per_second": 1 << 20}
    assert mom("config", "set", "full_wait=", "max_bytes_per_second=").code == OK
    refused = mom("config", "set", "full_wait=soon")
    assert (refused.code, "must be a time such as 2s, 5m" in refused.err) == (USAGE, True), refused.err


def test_a_limit_is_shown_with_that_of_all_brokers_of_a_cluster() -> None:
    def facts(brokers: int, effective: int) -> dict[str, Any]:
        limit = {"limit": 100, "scope": "broker", "brokers": brokers, "effective": effective}
        settings = {"max_messages": {"value": 100, "source": "own"}}
        return {"settings": settings, "subscriptions": [], "limits": {"max_messages": limit}}

    assert shown(facts(1, 100), "table")["max_messages"] == "100 (own)"
    assert shown(facts(3, 300), "table")["max_messages"] == "100 (own), per broker, 300 effective"


def test_settings_have_their_names_of_glassfish_mq_too() -> None:
    limits = "maxNumMsgs=-1 maxTotalMsgBytes=10m maxBytesPerMsg=10k maxNumProducers=100"
    others = "limitBehavior=REJECT_NEWEST useDMQ=false isLocalOnly=true"
    assert values_of([*limits.split(), *others.split()]) == {
        "max_messages": 0,
        "max_bytes": 10 * 1024**2,
        "max_message_bytes": 10 * 1024,
        "max_producers": 100,
        "limit_behavior": "REJECT_NEWEST",
        "use_dead_letters": False,
        "local_only": True,
    }


@pytest.mark.parametrize(
    ("assignment", "word"),
    [("maxNumBackupConsumers=1", "exclusive"), ("maxNumMsg=1", "did you mean maxNumMsgs")],
)
def test_a_name_of_glassfish_mq_without_a_setting_is_refused_with_what_to_use(
    assignment: str, word: str
) -> None:
    with pytest.raises(Failure, match=word):
        values_of([assignment])


def test_one_queue_has_the_dead_letters_of_all(broker: BrokerProcess, mom: CommandLine) -> None:
    assert mom("queue", "create", "mq.sys.dmq", "max_messages=1000", "max_bytes=10MiB").code == OK
    assert mom("queue", "set", ">", "dead_letters=mq.sys.dmq", "dead_letter_expired=true").code == OK
    assert mom("queue", "create", "of-all", "maxNumMsgs=1", "limitBehavior=REMOVE_OLDEST").code == OK
    assert publish(broker, "of-all") == publish(broker, "of-all") == 201
    (dead,) = mom("browse", "mq.sys.dmq", "-o", "json").json()
    assert dead["headers"]["dead-reason"] == "OLDEST" and dead["headers"]["dead-broker"]
    assert mom("queue", "rm", "mq.sys.dmq", "--force", "--yes").code == OK
    assert publish(broker, "of-all") == 201
    assert len(mom("browse", "mq.sys.dmq", "-o", "json").json()) == 1, "a dead letter creates it"
    assert mom("queue", "rm", ">", "--yes").code == OK
