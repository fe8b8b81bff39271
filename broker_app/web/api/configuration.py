"""The configuration over HTTP: what holds and since where, the files that say it, and trying a file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, cast

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app import config, zero
from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    OPTIONAL_TIME,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    or_null,
)
from broker_app.web import effective
from broker_app.web.actor import actor_of
from broker_app.web.api import request_params
from broker_app.web.api.permissions import MayAdminister
from broker_app.web.files import FileWatcher, carry_out, needing_restart, owner_of, shown_error, shown_plan
from broker_app.web.files.reloads import FilesStatus
from broker_app.web.refusals import PROBLEM_REPLIES

MAIN = "zero.config"
#: of the files of one check
MAX_CHARACTERS = 1024 * 1024

_ANY: Json = {"description": "of the setting's own type; null where there is none"}
_THING = object_of({"kind": TEXT, "key": TEXT, "source": {**TEXT, "description": "FILE:LINE"}})
_ERROR = object_of(
    {
        "file": TEXT,
        "line": {**COUNT, "minimum": 1},
        "column": {**COUNT, "minimum": 1},
        "detail": TEXT,
        "marker": {
            **TEXT,
            "description": "the line, and below it a mark at the column; secrets are dotted out",
        },
    }
)
_WARNINGS = {**array_of(_ERROR), "description": "settings without effect, with their positions"}
_PLAN = {
    "added": array_of(_THING),
    "changed": array_of(_THING),
    "removed": array_of(_THING),
    "kept": {**array_of(_THING), "description": "contained in the file, but existing already from elsewhere"},
    "unchanged": COUNT,
    "restart": {**array_of(TEXT), "description": "settings that hold from the next start of the node on"},
}
_RELOAD = object_of(
    {
        "time": TIME,
        "trigger": {**TEXT, "description": "start, or the files that changed"},
        "outcome": {"enum": ["applied", "unchanged", "refused"]},
        "version": or_null(COUNT),
        **_PLAN,
        "errors": array_of(_ERROR),
        "warnings": _WARNINGS,
    }
)
_FILE = object_of(
    {
        "name": TEXT,
        "state": {"enum": ["read", "refused", "missing", "new"]},
        "followed": {**BOOLEAN, "description": "whether it is read again when it changes"},
        "written": OPTIONAL_TIME,
        "bytes": or_null(COUNT),
        "sha256": or_null(TEXT),
        "includes": array_of(TEXT),
    }
)
_NAME: Json = {"type": ["string", "null"]}
_FILES = object_of(
    {
        "main": {**_NAME, "description": "null: no file is followed here"},
        "state": {"enum": ["read", "refused", "none"]},
        "read": OPTIONAL_TIME,
        "restart": array_of(TEXT),
        "follows": {"enum": ["all", "config-file", "none"]},
        "config_file": {**_NAME, "description": "the file that configFile names, if one is named"},
        "totals": {
            **object_of(dict.fromkeys(("applied", "unchanged", "refused", "touched"), COUNT)),
            "description": "readings since the start, by outcome; touched: the content was the same",
        },
        "errors": array_of(_ERROR),
        "warnings": _WARNINGS,
        "files": array_of(_FILE),
        "reloads": {**array_of(_RELOAD), "description": "the newest first"},
    }
)
_SETTING = {"name": TEXT, "value": _ANY, "default": _ANY, "source": TEXT, "about": TEXT}
_CONFIGURATION = object_of(
    {
        "broker": TEXT,
        "settings": array_of(
            object_of(
                {**_SETTING, "unit": TEXT, "secret": BOOLEAN, "reloadable": BOOLEAN, "restart": BOOLEAN}
            )
        ),
        "destinations": {
            **array_of(object_of(_SETTING)),
            "description": "the settings of a destination without settings of its own",
        },
        "files": _FILES,
    }
)
_CHECK = object_of(
    {
        "text": {**TEXT, "description": "of the first file"},
        "files": {
            "type": "object",
            "additionalProperties": TEXT,
            "description": "files that it includes, by path; default: those of the node",
        },
    },
    required=("text",),
)
_CHECKED = object_of(
    {
        "valid": BOOLEAN,
        "errors": array_of(_ERROR),
        "warnings": _WARNINGS,
        "plan": or_null(object_of(_PLAN)),
    }
)
_NO_FILES: FilesStatus = {
    "main": None, "state": "none", "read": None, "restart": [], "follows": "none", "config_file": None,
    "totals": {"applied": 0, "unchanged": 0, "refused": 0, "touched": 0},
    "errors": [], "warnings": [], "files": [], "reloads": [],
}  # fmt: skip


class Configuration(APIView):
    """The settings in effect."""

    permission_classes = (MayAdminister,)

    @extend_schema(operation_id="get_configuration", responses={200: _CONFIGURATION, **PROBLEM_REPLIES})
    def get(self, request: Request) -> Response:
        """Every setting of the node, its value and where that is from; and the files of the configuration."""
        request_params.query(request, ())
        watch = _watch(request)
        restart = watch.restart if watch is not None else ()
        return Response({**effective.shown(_running(), restart), "files": _files(watch)})


class Files(APIView):
    """The files of the configuration."""

    permission_classes = (MayAdminister,)

    @extend_schema(operation_id="get_configuration_files", responses={200: _FILES, **PROBLEM_REPLIES})
    def get(self, request: Request) -> Response:
        """The files of the configuration, what they include, how they were read, and the last reloads."""
        request_params.query(request, ())
        return Response(_files(_watch(request)))


class Check(APIView):
    """Trying a file."""

    changes_nothing: ClassVar = True
    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="check_configuration",
        request={"application/json": _CHECK},
        responses={200: _CHECKED, **PROBLEM_REPLIES},
    )
    def post(self, request: Request) -> Response:
        """The errors of a zero.config, or the changes that it would make."""
        request_params.query(request, ())
        text, files = _texts(request_params.body(request))
        path = _running().config_file
        folder = zero.Folder(path.parent, confined=True) if path is not None and files is None else None
        port = zero.Texts({**(files or {}), MAIN: text}, folder)
        try:
            loaded = zero.load(MAIN, port, config.words(path.parent if path is not None else Path()))
            plan, _ = carry_out(actor_of(request), loaded, owner_of(_running()), dry_run=True)
        except zero.InvalidFiles as bad:
            errors = [shown_error(error) for error in bad.errors]
            return Response({"valid": False, "errors": errors, "warnings": [], "plan": None})
        warnings = [shown_error(warning) for warning in loaded.warnings]
        planned = {**shown_plan(plan), "restart": list(needing_restart(_running(), loaded))}
        return Response({"valid": True, "errors": [], "warnings": warnings, "plan": planned})


def _running() -> Config:
    running: Config = settings.MOM
    return running


def _watch(request: Request) -> FileWatcher | None:
    return cast("FileWatcher | None", getattr(request._request, "scope", {}).get("mom.files"))


def _files(watch: FileWatcher | None) -> FilesStatus:
    return watch.shown() if watch is not None else _NO_FILES


def _texts(body: dict[str, object]) -> tuple[str, dict[str, str] | None]:
    """The text to be tried, and the files that it includes. Raises Refused."""
    for name in body:
        if name not in ("text", "files"):
            raise unknown(f"/{name[:100]}", name, ("text", "files"), "field")
    text, files = body.get("text"), body.get("files")
    if not isinstance(text, str):
        raise invalid("/text", "must be a text")
    if files is not None and not (
        isinstance(files, dict) and all(isinstance(file, str) for file in files.values())
    ):
        raise invalid("/files", "must be an object with a text for each path")
    if len(text) + sum(map(len, (files or {}).values())) > MAX_CHARACTERS:
        raise Refused("too-large", f"files of up to {MAX_CHARACTERS} characters together are checked here")
    return text, files
