"""The sites and the links to them: this broker, and the others of its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from broker_app.base.refused import Refused
from broker_app.features.channels.statuses import INVALID, REP_UNAVAIL
from broker_app.features.cluster.links.link import Link
from broker_app.features.cluster.links.members import ClusterMember, Members

#: the site that is the master at the moment
MASTER: Final = "$master"


class OtherSites(Protocol):
    """The other sites; `Cluster` has them as its members."""

    members: Members

    @property
    def master(self) -> str:
        """The name of the broker that is the master; empty if there is none, or it is not known."""


class Sites:
    """The site `own`, which is the master while it is alone, and `others` in a cluster."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.others: OtherSites | None = None

    @property
    def master(self) -> str:
        """The name of the master; empty while there is none."""
        return self.others.master if self.others is not None else self.own

    def name_of(self, site: str) -> str:
        """The name of a site, or of the master. Raises Refused while there is no master."""
        if site != MASTER:
            return site
        master = self.master
        if not master:
            raise Refused(
                REP_UNAVAIL,
                "no master: the cluster has no keeper (--cluster-keeper), or it was not reached; an enhanced "
                "cluster without one has elected no member yet",
            )
        return master

    def link_to(self, site: str) -> Link | None:
        """The link to a site, None to this one. Raises Refused for a site that is unknown or not linked."""
        if site == self.own:
            return None
        member = self.others.members.named(site) if self.others is not None else None
        if member is None:
            raise Refused(INVALID, f"there is no site {site[:80]!r}; `mom channel ls` lists all sites")
        if member.link is None:
            raise Refused(REP_UNAVAIL, f"site {site} is not linked: {member.reason.detail}")
        return member.link

    def brokers(self) -> Iterator[ClusterMember]:
        """The other brokers that have been reached."""
        others = self.others.members.all() if self.others is not None else ()
        return (member for member in others if member.name)
