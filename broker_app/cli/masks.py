"""`mom mask`: values of messages that are hidden from users who look at them."""

from __future__ import annotations

from broker_app.cli.configuration import resources
from broker_app.cli.configuration.resource_types import MASKS

app = resources.commands(MASKS)
