"""What files said, when all of it can be used."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_app.zero.errors import LookedFor, ZeroError
from broker_app.zero.file_reader import File
from broker_app.zero.positions import Place, Source
from broker_app.zero.values import Value


class Words(NamedTuple):
    """What is known outside of this room of what files may say.

    `settings` reads the value of each setting of the node from JSON, or raises ValueError that says what
    would be right; `refused` has those that no file says, and a sentence why.
    """

    settings: Mapping[str, Callable[[Any], Any]]
    refused: Mapping[str, str]


class Said(NamedTuple):
    """A setting of the node: its value, and where it is said."""

    value: Any
    place: Place

    @property
    def source(self) -> str:
        return self.place.source


@dataclass(frozen=True, slots=True)
class Document:
    """One thing of a kind, as it is said, and `secrets` beside it."""

    kind: str
    key: str
    value: Value = field(repr=False)
    place: Place
    said: Mapping[str, Any]
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> str:
        return self.place.source


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings of the node by name, documents by kind and key (rules in their order), and what was read.

    `looked_for` has the files that were tried, too, and need not be there. `config_file` is the one that
    `configFile` names. `warnings` are what was said and does not count.
    """

    settings: Mapping[str, Said]
    documents: Mapping[str, Mapping[str, Document]]
    files: Mapping[str, File]
    looked_for: LookedFor
    sources: Mapping[str, Source] = field(repr=False)
    config_file: str | None = None
    warnings: tuple[ZeroError, ...] = ()

    def error(self, document: Document, pointer: str, detail: str, offset: int | None = None) -> ZeroError:
        """What turned out to be wrong with a document, at the place of what `pointer` names; where that is a
        text, at its character `offset`."""
        value = document.value.find(pointer)
        place = value.place if value is not document.value else document.place
        source = self.sources.get(place.file)
        if source is None:
            return ZeroError(place, detail)
        if offset is not None and isinstance(value.content, str):
            # Only where the text stands as it is: escapes and references have other lengths.
            written = json.dumps(value.content, ensure_ascii=False)
            if len(written) == len(value.content) + 2 and source.stands(place, written):
                place = place._replace(column=place.column + 1 + offset)
        return ZeroError(place, detail, source.marker(place))
