"""Random requests for each operation that a document describes, made when a test runs.

The own decorator of `schemathesis` makes them when tests are collected: for half a minute, in each process.
"""

from __future__ import annotations

import random
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
    """Validate requests for an operation, right and wrong ones: as many random `examples`, for one that only
    reads a third of them, and four times as many of the hundreds that cover its description, which are others
    with each seed."""

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
    run: Any = build_operation_test(
        config=schema.config, operation=operation, test_func=test, given_kwargs={}, feedback=FeedbackSources()
    )
    covering = run.hypothesis_explicit_examples
    run.hypothesis_explicit_examples = random.sample(covering, min(4 * examples, len(covering)))
    run()


def _operations(schema: BaseSchema) -> Iterator[APIOperation[Any, Any, Any, Any]]:
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found.err()
        yield found.ok()
