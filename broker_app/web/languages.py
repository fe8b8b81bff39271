"""The language of a page, and the texts of its islands.

It is chosen by the cookie `mom_language`, or else by the browser's list. The API and `/docs` are always
English.
"""

from __future__ import annotations

import hashlib
from functools import cache

from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.translation import to_locale
from django.views.decorators.cache import cache_control
from django.views.i18n import JavaScriptCatalog

_FOR_PROGRAMS = ("/api/", "/docs/")
_A_YEAR_S = 365 * 86_400

_catalogue = JavaScriptCatalog.as_view(packages=["broker_app"])


class LanguageOfReader(LocaleMiddleware):
    """Django's choice of a language, only for pages."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        chosen = request.LANGUAGE_CODE
        # Without built catalogues, numbers would be in another language than the text.
        if _for_programs(request) or (chosen != settings.LANGUAGE_CODE and stamp(chosen) is None):
            translation.activate(settings.LANGUAGE_CODE)
            request.LANGUAGE_CODE = settings.LANGUAGE_CODE

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if _for_programs(request):
            return response
        return super().process_response(request, response)


def _for_programs(request: HttpRequest) -> bool:
    return request.path_info.startswith(_FOR_PROGRAMS)


@cache
def stamp(language: str) -> str | None:
    """The translations for islands in this language; none for the source language."""
    path = settings.SITE_FILES / "locale" / to_locale(language) / "LC_MESSAGES" / "djangojs.mo"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else None


@cache_control(public=True, max_age=_A_YEAR_S, immutable=True)
def words(request: HttpRequest, language: str, known: str) -> HttpResponseBase:
    """The sentences of the islands as a script; its address changes with them."""
    if language not in dict(settings.LANGUAGES) or known != stamp(language):
        raise Http404
    with translation.override(language):
        return _catalogue(request)
