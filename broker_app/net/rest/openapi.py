"""x"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def document(control: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {}
