"""Child processes that end with the process that started them, however that ends."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent(number: int) -> None:
    """Have Linux send this process the signal when the thread that has started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
