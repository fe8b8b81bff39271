"""The types of resources, in the order in which they are written."""

from collections.abc import Mapping
from types import MappingProxyType

from broker_app.web.resource_types.alerts import AlertRules
from broker_app.web.resource_types.bridges import Bridges
from broker_app.web.resource_types.brokers import Brokers
from broker_app.web.resource_types.destinations import Destinations
from broker_app.web.resource_types.resource_type import Kind, Said
from broker_app.web.resource_types.rules import Rules
from broker_app.web.resource_types.tokens import Tokens
from broker_app.web.resource_types.users import Groups, Users

#: what is named stands before what names it
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (Groups(), Users(), Tokens(), Rules(), Destinations(), Brokers(), Bridges(), AlertRules())
    }
)

__all__ = ["KINDS", "Kind", "Said"]
