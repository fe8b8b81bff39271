"""The OpenAPI 3.1 description of the data plane, from which its router is made.

A module for each sort of resource holds its SCHEMAS and PATHS; `schemas` and `operations` are what they are
written with. The control plane has a document of its own; `document` joins the two.
"""

from broker_app.net.rest.openapi.document import PATHS, document
from broker_app.net.rest.openapi.settings import row_schema, said_schema

__all__ = ["PATHS", "document", "row_schema", "said_schema"]
