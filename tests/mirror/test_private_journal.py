"""A main with a private journal, after its mirror has taken over: OM-T12."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker_app.cli.base.failures import CONFLICT, OK
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerFailed, BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, status, wait_until_serving
from tests.support.polling import poll
from tests.support.postgres import Postgres

pytestmark = pytest.mark.process


def private_state(broker: BrokerProcess) -> str | None:
    found = status(broker)["private_journal"]
    return None if found is None else found["state"]


async def send(mirrors: Mirrors, *bodies: str) -> None:
    async with mirrors.client() as mom:
        for body in bodies:
            await mom.send("/queue/orders", body)


def restart_refused(main: BrokerProcess) -> str:
    """The message with which a main ends instead of starting."""
    with pytest.raises(BrokerFailed):
        main.start(standby=True)
    return main.log


async def test_a_main_with_a_stale_private_journal_starts_after_it_was_replaced(
    mirrors: Mirrors, tmp_path: Path, postgres: Postgres
) -> None:
    own = tmp_path / "own"
    main, mirror = mirrors.make("--private-journal", str(own)), mirrors.make()
    main.start()
    mirror.start(standby=True)
    await send(mirrors, "one", "two")
    poll(lambda: private_state(main) == "in step" and is_followed(main))
    epoch = status(main)["lease"]["epoch"]
    mom = CommandLine(tmp_path)
    shared = ("--name", mirrors.name, "--journal", postgres.url)
    replace = ("journal", "replace-private", *shared, "--private-journal", str(own))
    in_use = mom(*replace, "--yes")
    assert in_use.code == CONFLICT
    assert "serves with this private journal" in in_use.err

    main.kill()
    wait_until_serving(mirror)
    await send(mirrors, "three")
    refusal = restart_refused(main)
    place = f"{own}/mom_journal_{mirrors.name}"
    assert f"private journal: directory {place}, epoch {epoch}" in refusal
    assert re.search(rf"shared journal: PostgreSQL.*mom_journal_{mirrors.name}.*epoch {epoch + 1}", refusal)
    assert "mom journal replace-private" in refusal

    shown = mom(*replace, "--dry-run", "-o", "json")
    assert shown.code == OK
    assert f'"epoch": {epoch}' in shown.out
    assert f'"epoch": {epoch + 1}' in shown.out
    assert place in restart_refused(main)
    replaced = mom(*replace, "--yes")
    assert replaced.code == OK, replaced.err
    assert f"journal is in {own}/replaced-" in replaced.err + replaced.out

    main.start(standby=True)
    poll(lambda: is_followed(mirror))
    assert mirror.request("POST", f"/api/v1/mirrors/{mirrors.name}/switchover").status == 202
    wait_until_serving(main)
    poll(lambda: private_state(main) == "in step")
    for broker in (main, mirror):
        broker.terminate()

    alone = mirrors.make(journal=f"file:{own}", role=1)
    alone.start()
    mirrors.brokers[:] = [alone]
    async with mirrors.client() as client, client.subscribe("/queue/orders") as messages:
        found = [await messages.get(20) for _ in range(3)]
    assert [one.text for one in found] == ["one", "two", "three"]
