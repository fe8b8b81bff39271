"""The whole document, joined from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_app.net.rest.openapi import (
    alerts,
    bridges,
    bulk,
    callbacks,
    cluster,
    cluster_clients,
    connections,
    destinations,
    jobs,
    journal,
    leases,
    messages,
    mirrors,
    node,
    operations,
    reflexes,
    services,
    sites,
    stats,
)
from broker_app.net.rest.openapi.schemas import Json

_VERSION = "1"
_PARTS = (
    *(
        messages,
        leases,
        destinations,
        jobs,
        connections,
        bridges,
        callbacks,
        cluster,
        cluster_clients,
        mirrors,
        reflexes,
    ),
    *(alerts, stats, bulk, journal, services, sites, node),
)


def _tagged(path: str, methods: Json) -> Json:
    """The operations of a path, under the name of what they are about."""
    return {method: {**operation, "tags": [path.split("/")[1]]} for method, operation in methods.items()}


#: the operations of the data plane, from which its router is made
PATHS: Final[Json] = {
    f"/api/v1{path}": _tagged(path, methods) for part in _PARTS for path, methods in part.PATHS.items()
}


def document(control: Mapping[str, Any] | None = None) -> Json:
    """The whole description; with that of the control plane (whose paths begin with /api/v1) joined in."""
    paths = dict(PATHS)
    components: Json = {
        "schemas": {name: schema for part in (operations, *_PARTS) for name, schema in part.SCHEMAS.items()},
        "responses": operations.problem_replies(),
        "headers": operations.REPLY_HEADERS,
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "mom_…"},
            "password": {"type": "http", "scheme": "basic"},
        },
    }
    servers: Json = {}
    if control is not None:
        if "servers" in control:
            servers = {"servers": control["servers"]}
        for path, methods in control.get("paths", {}).items():
            paths[path] = {**methods, **paths.get(path, {})}
        for kind, entries in control.get("components", {}).items():
            components[kind] = {**entries, **components.get(kind, {})}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MOM",
            "version": _VERSION,
            "description": "Messages over HTTP. A cookie of the console is accepted only from its own pages; "
            "other requests without credentials need the header X-Requested-With. Errors are problems "
            "(RFC 9457).",
        },
        **servers,
        "paths": paths,
        "components": components,
        "security": [{"token": []}, {"password": []}],
    }
