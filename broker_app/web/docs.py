"""The page where the whole HTTP interface can be read and tried: Swagger UI, served only from here."""

from typing import Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.utils.decorators import method_decorator
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response


# Swagger UI has styles in its elements. Scripts stay those of files.
@method_decorator(csp_update({"style-src": [SELF, UNSAFE_INLINE]}), name="dispatch")
class ApiPage(SpectacularSwaggerSplitView):
    """`/docs/`"""

    schema = None  # no part of what it shows
    url_name = "openapi"
    title = "MOM's HTTP interface"
    template_name = "api_page.html"

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        reply: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        reply["Cross-Origin-Opener-Policy"] = "same-origin"
        return reply
