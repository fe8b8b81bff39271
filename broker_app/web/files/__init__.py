"""Files of configuration: what a `zero.config` says, carried into the database and kept in step with it.

Promises: a file is taken whole or not at all; only what differs is written; what exists already from
elsewhere stays as it is. Owns the fingerprints and the history of reloads. Never writes a model: that is for
`web.actions`.
"""

from broker_app.web.files.file_watcher import FileWatcher
from broker_app.web.files.plan import Plan, Planned, carry_out, check, needing_restart, owner_of, release
from broker_app.web.files.reloads import REFUSED, Reload, shown_error, shown_plan

__all__ = [
    "REFUSED",
    "FileWatcher",
    "Plan",
    "Planned",
    "Reload",
    "carry_out",
    "check",
    "needing_restart",
    "owner_of",
    "release",
    "shown_error",
    "shown_plan",
]
