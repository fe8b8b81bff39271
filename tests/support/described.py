"""Random requests for each operation that a document describes, made when a test runs.

The own decorator of `schemathesis` makes them when tests are collected: for half a minute, in each process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.result import Ok
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.schemas import APIOperation, BaseSchema


def operations(schema: BaseSchema) -> list[str]:
    """The method and path of each operation."""
    return [operation.label for operation in _operations(schema)]


def check(
    schema: BaseSchema, label: str, validate: Callable[[schemathesis.Case[Any]], None], examples: int
) -> None:
    """Validate requests for an operation, right and wrong ones: those that cover its description, and as many
    random `examples`; for one that only reads a third of them."""

    @settings(
        max_examples=max(1, examples // 3) if label.startswith(("GET ", "HEAD ")) else examples,
        deadline=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    def test(case: schemathesis.Case[Any]) -> None:
        validate(case)

    [operation] = [found for found in _operations(schema) if found.label == label]
    build_operation_test(
        config=schema.config, operation=operation, test_func=test, given_kwargs={}, feedback=FeedbackSources()
    )()


def _operations(schema: BaseSchema) -> Iterator[APIOperation[Any, Any, Any, Any]]:
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found.err()
        yield found.ok()
