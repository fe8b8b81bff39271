"""The actor of an action: stored with every change and every entry of the audit log."""

from dataclasses import dataclass

#: the sources of actions
CONSOLE, API, CLI, FILE, START, STOMP = "console", "api", "cli", "file", "start", "stomp"
#: another broker of the cluster, whose name is then that of the user
CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Actor:
    """`via` is one of those above; `address` is the IP address, if known; `token` is the
    name of the token that was used, if one was."""

    user: str
    via: str
    address: str = ""
    token: str = ""
    reason: str = ""
    trace_id: str = ""


#: the broker itself, when it starts
SYSTEM = Actor("system", START)
