"""The watch over the journals of members: orders that it can carry out no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.policy import Policies
from broker_app.features.enhanced_cluster import journal_watch
from broker_app.features.enhanced_cluster.journal_watch import JournalWatch
from broker_app.features.enhanced_cluster.registry import JournalNote, Registry, registry_name
from broker_app.features.enhanced_cluster.takeover import OwnBroker, Stopping
from broker_app.storage.factory import store_at


class Stopped:
    """A takeover during which the broker begins to stop."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def take(self, *_: Any) -> None:
        raise Stopping("this broker stops")


def test_an_order_whose_takeover_ends_with_the_broker_is_refused_as_orders_that_wait_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_watch, "Takeover", Stopped)
    config = Config(name="b2", journal=f"file:{tmp_path}", cluster_id="shop", cluster_port=1)
    assert config.cluster_id is not None and config.journal is not None
    registry = Registry(store_at(config.journal, registry_name(config.cluster_id)))
    registry.write(
        JournalNote(journal="shop.b1", member="b1", generation=0, holder="b1", address="b1:1", state="kept")
    )
    watch = JournalWatch(
        *(config, OwnBroker("b2", "b2:1", ()), lambda call, *args: call(*args)),
        make_broker=Broker,
        policies=Policies,
        may_take=lambda: True,
        taken=lambda _: None,
        found=lambda _: None,
    )
    watch.start(1)
    try:
        done = watch.order("b1", "anna", force=True)
        with pytest.raises(Refused, match="this broker stops") as refused:
            done.result(60)
        assert refused.value.code == "not-active"
    finally:
        watch.close()
        watch.close_stores()
        registry.close()
