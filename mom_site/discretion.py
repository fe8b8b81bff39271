"""Discretion: what pages of errors and the log leave out, because it may be secret."""

from __future__ import annotations

import logging
import re
from collections.abc import ItemsView
from types import TracebackType
from typing import Any

from django.http import HttpRequest, QueryDict
from django.views.debug import SafeExceptionReporterFilter

_LINK = re.compile(r"(/login/once/)[^\s?'\"]+")


class Reports(SafeExceptionReporterFilter):
    """Error pages, which `debug` shows to all: the place of the error, and no values."""

    def is_active(self, request: HttpRequest | None) -> bool:
        return True

    def get_post_parameters(self, request: HttpRequest | None) -> QueryDict:
        return QueryDict()

    def get_traceback_frame_variables(
        self, request: HttpRequest | None, tb_frame: TracebackType
    ) -> ItemsView[str, Any]:
        return dict[str, Any]().items()


class WithoutLinks(logging.Filter):
    """Takes the secret out of the addresses of one-time links: they may not have been used yet."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "/login/once/" in message:
            record.msg, record.args = _LINK.sub(r"\1…", message), ()
        return True
