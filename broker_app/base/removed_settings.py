"""Settings of former versions, and what replaces each: a broker that is given one does not start."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_BUDGET: Final = "it is a share of memory_bytes now; set that"
_MAIL: Final = (
    "set smtp, the address of the server: smtp://USER:PASSWORD@HOST:PORT, smtp+starttls:// or smtps://"
)
_SMASH: Final = "set smash_reload to true for both of what follow_files and reload_bridges changed"

#: by name, how to do without it
REMOVED_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "transient_bytes": _BUDGET,
        "blocked_bytes": _BUDGET,
        "inbox_bytes": _BUDGET,
        "outbox_bytes": _BUDGET,
        "reflex_bytes": _BUDGET,
        "max_transaction_bytes": _BUDGET,
        "stats_destinations": _BUDGET,
        "reflex_memory": "a process of reflexes may use 512 MiB; leave it out",
        "max_headers": "a message may have 128 headers; leave it out",
        "max_header_bytes": "the headers of a message may have 64 KiB; leave it out",
        "max_transactions": "a connection may have 100 open transactions; leave it out",
        "max_staged_bytes": "staged rows may have 4 GiB; leave it out",
        "history_versions": "10,000 versions of the configuration are kept; leave it out",
        "store_warn": "set the threshold of an alert rule with the condition store instead",
        "pipeline_retention_s": "a cursor that is not reported for 7 days keeps nothing; remove it, or set "
        "max_store_bytes, of which cursors keep half at most",
        "pipeline_retention_bytes": "programs with cursors keep journal_retention_bytes, 1 GiB at least, and "
        "half of max_store_bytes at most; set one of these",
        "debug": "trace-backs are in the log of the broker; leave it out",
        "allowed_origins": "origins are part of allowed_hosts: add https://HOST:PORT to it",
        "ping": "WebSockets are pinged at twice the time of heartbeat_ms; set that",
        **dict.fromkeys(("smtp_host", "smtp_port", "smtp_tls", "smtp_user", "smtp_password"), _MAIL),
        "smtp_from": "the sender is part of smtp: add ?from=ADDRESS to it",
        "cluster_advertised_port": "it is part of cluster_host: set that to HOST:PORT",
        "max_wait": "a receive over REST may wait 60 s; leave it out",
        "follow_files": _SMASH,
        "reload_bridges": _SMASH,
    }
)


def sentence(name: str) -> str:
    """The end of a sentence about a setting that was removed; empty for any other name."""
    instead = REMOVED_SETTINGS.get(name)
    return f"is no longer a setting: {instead}" if instead else ""
