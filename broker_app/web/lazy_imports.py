"""Libraries that are not used here, and that Django REST framework would load because they are installed."""

import sys
from importlib import import_module

# For fields of PostgreSQL's own, for pages of its own, and for a client of tests.
_UNUSED = ("django.contrib.postgres.fields", "pygments", "requests")


def spare_unused() -> None:
    """Let REST framework treat optional modules as not installed, which saves a fifth of a broker's start.
    Other code may import them later."""
    unloaded = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(unloaded))  # type: ignore[arg-type]  # None is Python's word for absent
    try:
        import_module("rest_framework.compat")
    finally:
        for name in unloaded:
            del sys.modules[name]
