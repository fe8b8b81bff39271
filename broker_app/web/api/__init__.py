"""The control plane of the HTTP interface (DRF): the configuration, as resources.

Conditional writes, pages, dry runs and problems work the same for all of them. It has no state:
`web.resource_types` reads, `web.actions` writes. Messages pass through `net.rest`.
"""

from broker_app.web.api.document import describe, document

__all__ = ["describe", "document"]
