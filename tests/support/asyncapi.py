"""The AsyncAPI document as a test uses it: real frames are validated with the schemas of its messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema

from tests.support.broker_process import ROOT
from tests.support.missing import missing

Json = dict[str, Any]
_SPECS = ROOT / "tests" / "interop" / "clients" / "node_modules" / "@asyncapi" / "specs" / "schemas"


def official_schema(version: str) -> Json:
    """The JSON schema of AsyncAPI documents of a version. Skips the test where it is not installed."""
    path = _SPECS / f"{version}-without-$id.json"
    if not path.is_file():
        missing("the schema of AsyncAPI is not installed; `make test-tools` installs it")
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    return found


class Described:
    """The messages of a document. `seen` are the names of those that were validated."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.seen: set[str] = set()

    def names(self, protocol: str) -> set[str]:
        """The messages of a protocol."""
        return {name for name in self.document["components"]["messages"] if name.startswith(f"{protocol}.")}

    def check(self, name: str, payload: Any, headers: Mapping[str, str] | None = None) -> None:
        """Fail unless a real message is as its description says."""
        message = self.document["components"]["messages"][name]
        self.seen.add(name)
        self._validate(name, message["payload"], payload)
        if headers is not None:
            self._validate(name, message["headers"], dict(headers))

    def fits(self, name: str, payload: Any, headers: Mapping[str, str] | None = None) -> bool:
        """Return whether a message is as the description `name` says."""
        seen = set(self.seen)
        try:
            self.check(name, payload, headers)
        except AssertionError:
            return False
        finally:
            self.seen = seen
        return True

    def _validate(self, name: str, schema: Json, value: Any) -> None:
        whole = {"allOf": [schema], "components": self.document["components"]}
        errors = [
            f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
            for error in jsonschema.Draft7Validator(whole).iter_errors(value)
        ]
        assert not errors, (name, errors, value)
