"""The features of a node: each is started, finished and stopped in its turn, and each operation has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_app.base.refused import Refused
from broker_app.net.rest import openapi
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.node.features.features import Features, Given
from tests.test_node_start import a_node, started


class Witness(Feature):
    """Notes in `seen` what is asked of it."""

    def __init__(self, name: str, seen: list[str], error: Exception | None = None) -> None:
        self._name = name
        self._seen = seen
        self._error = error

    async def start(self) -> None:
        self._seen.append(f"start {self._name}")
        if self._error is not None:
            raise self._error

    async def finish(self) -> None:
        self._seen.append(f"finish {self._name}")

    async def stop(self) -> None:
        self._seen.append(f"stop {self._name}")


def add(monkeypatch: pytest.MonkeyPatch, *witnesses: Feature) -> None:
    """Have each node end its list with these features."""
    make = Features.__init__

    def make_with_witnesses(features: Features, parts: NodeParts, given: Given) -> None:
        make(features, parts, given)
        features.list += witnesses

    monkeypatch.setattr(Features, "__init__", make_with_witnesses)


async def test_features_start_in_their_order_and_end_in_the_reverse_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    add(monkeypatch, Witness("a", seen), Witness("b", seen))
    await started(a_node(tmp_path))
    assert seen == ["start a", "start b", "finish b", "finish a", "stop b", "stop a"]


async def test_a_feature_that_has_not_started_has_nothing_to_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    busy = Refused("busy", "it does not start")
    add(monkeypatch, Witness("a", seen), Witness("b", seen, busy), Witness("c", seen))
    with pytest.raises(Refused, match="it does not start"):
        await started(a_node(tmp_path))
    assert seen == ["start a", "start b", "finish a", "stop c", "stop b", "stop a"]


async def test_each_described_operation_is_answered_by_one_feature(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    await started(node)
    answered = [operation for feature in node.features.list for operation in feature.endpoints()]
    described = [method["operationId"] for path in openapi.PATHS.values() for method in path.values()]
    assert sorted(answered) == sorted(described)
