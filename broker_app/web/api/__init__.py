"""The control plane of the HTTP interface (DRF): what is configured, as resources over the kinds.

Promises conditional writes, pages, dry runs and problems alike for all of them. Owns nothing: `web.kinds`
reads, `web.actions` writes. Messages themselves pass through `net.rest`.
"""

from broker_app.web.api.document import describe, document

__all__ = ["describe", "document"]
