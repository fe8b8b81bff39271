"""The check of bodies against a JSON Schema. It may take long, so it runs in a process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.validators import validator_for

from broker_app.reflex.api import ACCEPT, Message, Verdict, refuse
from broker_app.reflex.shipped.options import Option, text

#: characters of an error
_MAX_ERROR = 300


def _object(value: Any) -> str:
    return "" if isinstance(value, Mapping | bool) else "must be a JSON Schema: an object"


OPTIONS = (
    Option("schema", "the schema itself", _object),
    Option("file", "a file with the schema, which is read again when it changes", text),
)


def schema_faults(options: Mapping[str, Any]) -> list[str]:
    """The errors of the options that concern both, or the schema itself."""
    if ("schema" in options) == ("file" in options):
        return ["exactly one of the options schema and file is needed"]
    if "schema" in options:
        try:
            _check(options["schema"])
        except ValueError as error:
            return [str(error)]
    return []


def check_schema(message: Message, options: Mapping[str, Any]) -> Verdict:
    """Refuse a body that is not JSON, or does not match the schema."""
    validator = _validator_of(options)
    try:
        body = json.loads(message.body)
    except ValueError as error:
        return refuse(f"the body is not JSON: {error}"[:_MAX_ERROR])
    worst = jsonschema.exceptions.best_match(validator.iter_errors(body))
    if worst is None:
        return ACCEPT
    where = "/".join(map(str, worst.absolute_path))
    return refuse(f"the body does not match the schema at /{where}: {worst.message}"[:_MAX_ERROR])


def _validator_of(options: Mapping[str, Any]) -> Any:
    if "schema" in options:
        return _compiled(json.dumps(options["schema"], sort_keys=True))
    path = Path(options["file"])
    try:
        return _from_file(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ValueError(f"the schema {path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=64)
def _from_file(path: Path, changed: int) -> Any:
    return _compiled(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=64)
def _compiled(text: str) -> Any:
    return _check(json.loads(text))


def _check(schema: Any) -> Any:
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.exceptions.SchemaError as error:
        raise ValueError(f"the schema is not valid: {error.message}"[:_MAX_ERROR]) from error
    return kind(schema)
