"""The kinds of things that are configured, in the order in which they are written."""

from collections.abc import Mapping
from types import MappingProxyType

from broker_app.web.kinds.alerts import AlertRules
from broker_app.web.kinds.bridges import Bridges
from broker_app.web.kinds.brokers import Brokers
from broker_app.web.kinds.destinations import Destinations
from broker_app.web.kinds.kind import Kind, Said
from broker_app.web.kinds.people import Groups, Users
from broker_app.web.kinds.rules import Rules
from broker_app.web.kinds.tokens import Tokens

#: what is named stands before what names it
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (Groups(), Users(), Tokens(), Rules(), Destinations(), Brokers(), Bridges(), AlertRules())
    }
)

__all__ = ["KINDS", "Kind", "Said"]
