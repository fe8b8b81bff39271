"""Sizes such as 64MiB, and members whose names say their unit: `…_s` are seconds, `…_bytes` bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_app.base import durations

_SIZES: Final = {
    "": 1, "b": 1, "kib": 1024, "k": 1024, "mib": 1024**2, "m": 1024**2, "gib": 1024**3, "g": 1024**3,
    "kb": 1000, "mb": 1000**2, "gb": 1000**3,
}  # fmt: skip
A_SIZE: Final = "a size such as 65536, 64MB or 64MiB"


def size(text: str) -> int:
    """Return the bytes of a text such as 65536, 10m, 64MB (millions) or 64MiB. Raises ValueError."""
    digits = text.rstrip("KMGIBkmgib ")
    unit = text[len(digits) :].strip().lower()
    if unit not in _SIZES or not digits.strip().isdecimal():
        raise ValueError(f"{text!r} is not {A_SIZE}")
    return int(digits) * _SIZES[unit]


_READ: Final[Mapping[str, Callable[[str], float]]] = {"_s": durations.seconds, "_bytes": size}


def ends_with(name: str, unit: str) -> bool:
    """Return whether the value of a member has this unit: `rate_per_s` is no time."""
    return name.endswith(unit) and not name.endswith("_per_s")


def in_numbers(members: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the members, with numbers for texts of times and sizes, and what is wrong with such texts."""
    numbers, wrong = dict(members), {}
    for name, value in members.items():
        read = next((read for end, read in _READ.items() if ends_with(name, end)), None)
        if read is not None and isinstance(value, str):
            try:
                numbers[name] = read(value)
            except ValueError as error:
                wrong[name] = str(error)
    return numbers, wrong
