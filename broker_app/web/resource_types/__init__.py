"""The types of resources, in the order in which they are written."""

from collections.abc import Mapping
from types import MappingProxyType

from broker_app.web.resource_types.alerts import AlertRules
from broker_app.web.resource_types.bridges import Bridges
from broker_app.web.resource_types.brokers import Brokers
from broker_app.web.resource_types.callbacks import Callbacks
from broker_app.web.resource_types.destinations import Destinations
from broker_app.web.resource_types.masks import Masks
from broker_app.web.resource_types.reflexes import Reflexes
from broker_app.web.resource_types.resource_type import ResourceType, Spec
from broker_app.web.resource_types.rules import Rules
from broker_app.web.resource_types.tokens import Tokens
from broker_app.web.resource_types.users import Groups, Users

#: a type stands before the types that refer to it
RESOURCE_TYPES: Mapping[str, ResourceType] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Groups(),
            Users(),
            Tokens(),
            Rules(),
            Masks(),
            Destinations(),
            Brokers(),
            Bridges(),
            Callbacks(),
            Reflexes(),
            AlertRules(),
        )
    }
)

__all__ = ["RESOURCE_TYPES", "ResourceType", "Spec"]
