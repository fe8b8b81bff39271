"""The result of a load: settings and documents of valid files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_app.zero.errors import LookedFor, ZeroError
from broker_app.zero.file_reader import File
from broker_app.zero.positions import Position, SourceText
from broker_app.zero.values import Value


class SettingReaders(NamedTuple):
    """The settings of the node that files may contain, supplied by the caller.

    `settings` reads the value of each setting from JSON, or raises ValueError with what it must be; `refused`
    has the settings that are not allowed in files, with the reason.
    """

    settings: Mapping[str, Callable[[Any], Any]]
    refused: Mapping[str, str]


class SettingValue(NamedTuple):
    """The value of a setting of the node, and its position."""

    value: Any
    position: Position

    @property
    def source(self) -> str:
        return self.position.source


@dataclass(frozen=True, slots=True)
class Document:
    """The `spec` of one resource, and its `secrets`."""

    kind: str
    key: str
    value: Value = field(repr=False)
    position: Position
    spec: Mapping[str, Any]
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> str:
        return self.position.source


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings of the node by name, documents by kind and key (rules in their order), and what was read.

    `looked_for` has all files that were tried, existing or not. `config_file` is the one that `configFile`
    names. `warnings` are statements without effect.
    """

    settings: Mapping[str, SettingValue]
    documents: Mapping[str, Mapping[str, Document]]
    files: Mapping[str, File]
    looked_for: LookedFor
    sources: Mapping[str, SourceText] = field(repr=False)
    config_file: str | None = None
    warnings: tuple[ZeroError, ...] = ()

    def error(self, document: Document, pointer: str, detail: str, offset: int | None = None) -> ZeroError:
        """An error in a document, at the position of the value that `pointer` names; in a string, at its
        character `offset`."""
        value = document.value.find(pointer)
        position = value.position if value is not document.value else document.position
        source = self.sources.get(position.file)
        if source is None:
            return ZeroError(position, detail)
        if offset is not None and isinstance(value.content, str):
            # Only for text without escapes and references, which have other lengths.
            written = json.dumps(value.content, ensure_ascii=False)
            if len(written) == len(value.content) + 2 and source.stands(position, written):
                position = position._replace(column=position.column + 1 + offset)
        return ZeroError(position, detail, source.marker(position))
