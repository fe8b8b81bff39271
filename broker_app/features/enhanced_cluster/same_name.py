"""Another broker that serves with the name of this one: of two such members, the later is refused."""

from __future__ import annotations

import time

from broker_app.base.settings import roles
from broker_app.config import Config
from broker_app.journal.errors import JournalFailed
from broker_app.members.membership import Member, members_in
from broker_app.net.rest.node.mirror_status import ACTIVE
from broker_app.storage.factory import make_store


class NameInUse(JournalFailed):
    """Another member has the name of this one."""

    def __init__(self, name: str, own: str, other: str) -> None:
        super().__init__(
            f"imq.brokerid: two brokers have the name {name!r}, at {other} and {own}; give each its own "
            "(--name, MOM_NAME), or start this one as the mirror of the other (role -1)"
        )


def find(config: Config, own: str, since: float) -> Member | None:
    """The main broker that serves the journal of this one, whose id is `own`; None without one. Only a note
    counts that was written since then (`time.monotonic`): one of before may be of a broker that has ended.
    Blocks. Raises JournalError."""
    store = make_store(config)
    try:
        passed_s = time.monotonic() - since
        for member in members_in(store):
            is_other = member.id != own and member.role == roles.MAIN
            if is_other and member.state == ACTIVE and member.age_s < passed_s:
                return member
        return None
    finally:
        store.release()
