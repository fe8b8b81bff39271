"""The settings of this process, some of which a central file replaces when it is read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings

from broker_app.config import Config
from broker_app.features.cluster.configuration import settings as cluster_settings


class ProcessSettings:
    """A `SettingsSource`: the variables of the process, and the files that they name."""

    def read(self) -> Config:
        """The settings as after a restart. Raises ConfigError."""
        return cluster_settings.load()

    def use(self, changes: Mapping[str, Any]) -> None:
        """Have what asks Django see other values from now on."""
        settings.MOM = replace(settings.MOM, **changes)
