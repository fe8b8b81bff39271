"""Definitions: all that is configured as one document, which can be planned and then applied.

A document is {"mom_definitions": 1, "rules": {name: {…}}, …} with a member for each kind; nothing in it is
secret. A kind that it does not have is none of its business. Tokens are not in it: they cannot be read back.
"""

from broker_app.web.definitions.document import (
    MAX_BYTES,
    Document,
    Fault,
    InvalidDocument,
    from_json,
    from_yaml,
    node_at,
    to_json,
    to_yaml,
)
from broker_app.web.definitions.plan import ImportPlan, apply, digest_of, export, plan

__all__ = [
    "MAX_BYTES",
    "Document",
    "Fault",
    "ImportPlan",
    "InvalidDocument",
    "apply",
    "digest_of",
    "export",
    "from_json",
    "from_yaml",
    "node_at",
    "plan",
    "to_json",
    "to_yaml",
]
