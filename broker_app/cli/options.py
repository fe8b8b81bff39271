"""Options that several commands share: written once, and given to each as one dictionary."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def with_options(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command `options`, by name the annotation of each. It finds those that were given in its last
    parameter, a dictionary; one that would be a word of Python ends in `_`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        *own, last = inspect.signature(command, eval_str=True).parameters.values()
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in options.items()
        ]

        @functools.wraps(command)
        def called(**given: Any) -> None:
            asked = {name.rstrip("_"): given.pop(name) for name in options}
            command(
                **given, **{last.name: {name: value for name, value in asked.items() if value is not None}}
            )

        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate
