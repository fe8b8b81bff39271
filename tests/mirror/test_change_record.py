"""A mirror that takes over has the change record of the cluster, which is newer than what others have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_record_of_brokers import declare
from tests.cluster.whole_brokers import settings
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, wait_until_serving
from tests.support.polling import poll
from tests.support.ports import reserve_ports

pytestmark = pytest.mark.process
SECRET = {"MOM_CLUSTER_SECRET": "a secret of the cluster in this test"}


def limit(broker: BrokerProcess) -> int | None:
    found: Any = settings(broker, "orders")
    return None if found is None else int(found["max_messages"]["value"])


def change(broker: BrokerProcess, **settings: int) -> None:
    changed = broker.request("PATCH", "/api/v1/queues/orders", json_body=settings, if_match="*")
    assert changed.status == 200, changed.body


def links(broker: BrokerProcess) -> list[str]:
    """The names of the other brokers that a broker is linked to."""
    found = broker.request("GET", "/api/v1/cluster").json()["links"]
    return [link["broker"] for link in found if link["state"] == "up"]


def test_a_change_while_others_are_away_is_kept_by_the_mirror_that_takes_over(
    mirrors: Mirrors, tmp_path: Path
) -> None:
    main_port, mirror_port, other_port = reserve_ports(3)
    listed = ",".join(f"127.0.0.1:{port}" for port in (main_port, mirror_port, other_port))
    main, mirror = (
        mirrors.make("--cluster-port", str(port), "--cluster", listed, environment=SECRET)
        for port in (main_port, mirror_port)
    )
    other = BrokerProcess(
        tmp_path / "other",
        *("--name", "other", "--cluster-port", str(other_port), "--cluster", listed),
        environment=SECRET,
    )
    main.start()
    mirror.start(standby=True)
    other.start()
    try:
        poll(lambda: links(main) == ["other"])
        assert declare(main, "orders", max_messages=7).status == 201
        change(main, max_messages=9)
        poll(lambda: limit(other) == 9)
        other.terminate()
        change(main, max_messages=5)
        poll(lambda: is_followed(main))
        main.terminate()
        wait_until_serving(mirror)
        other.start()
        poll(lambda: links(mirror) == ["other"])
        poll(lambda: limit(other) == 5)
        assert limit(mirror) == 5
    finally:
        other.kill()
