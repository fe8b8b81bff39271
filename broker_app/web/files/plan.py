"""The plan of files: their differences from the running configuration, and applying them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction

from broker_app.config import PREFIX, Config
from broker_app.models import Entry
from broker_app.rules.errors import RuleError
from broker_app.web import actions
from broker_app.web.actions import Actor, Edit
from broker_app.web.files.rule_order import positions
from broker_app.web.resource_types import RESOURCE_TYPES, Spec
from broker_app.web.resource_types.resource_type import completed
from broker_app.zero import Document, InvalidFiles, Loaded, Position, ZeroError

Name = tuple[str, str]
#: kinds whose resources are in the order of a file
_ORDERED = ("rules", "reflexes")


class Planned(NamedTuple):
    """One resource that differs: `before` in effect, `after` in the file; None if it does not exist."""

    kind: str
    key: str
    before: Spec | None
    after: Spec | None
    source: str

    @property
    def action(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"


class ExistingResource(NamedTuple):
    """One resource of the file that exists already from elsewhere, which wins."""

    kind: str
    key: str
    source: str


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The changes to make. `moved` are resources at another position with the same content."""

    differences: tuple[Planned, ...]
    edits: tuple[Edit, ...]
    moved: Mapping[Name, str]
    kept: tuple[ExistingResource, ...]
    unchanged: int


def owner_of(running: Config) -> str:
    """The prefix of the sources of a broker's files: empty, unless brokers share their configuration."""
    return f"{running.name}/" if running.database is not None else ""


def plan(loaded: Loaded, owner: str) -> FilePlan:
    """The differences between the files and the running configuration. Raises InvalidFiles."""
    origins = dict(_origins(owner))
    current = _read_all(loaded)
    documents = _with_positions(loaded, current, origins)
    errors: list[ZeroError] = []
    differences: list[Planned] = []
    edits: list[Edit] = []
    kept: list[ExistingResource] = []
    moved: dict[Name, str] = {}
    unchanged = 0
    for name, document in documents.items():
        before = current.get(name)
        try:
            after = _checked(document, before)
        except ValidationError as fault:
            errors += _placed(loaded, document, fault)
            continue
        if before is not None and name not in origins:
            kept.append(ExistingResource(*name, document.source))
            continue
        secrets = _changed_secrets(document)
        if before == after and not secrets:
            unchanged += 1
            if origins[name] != owner + document.source:
                moved[name] = owner + document.source
            continue
        differences.append(Planned(*name, before, after, document.source))
        edits.append(Edit(*name, after, secrets=secrets, origin=owner + document.source))
    for name, origin in origins.items():
        if name not in documents:
            before = RESOURCE_TYPES[name[0]].read([name[1]]).get(name[1])
            differences.append(Planned(*name, before, None, origin))
            edits.append(Edit(*name, None, origin=origin))
    if errors:
        raise InvalidFiles(errors, loaded.looked_for)
    return FilePlan(tuple(differences), tuple(edits), moved, tuple(kept), unchanged)


@transaction.atomic
def carry_out(
    actor: Actor, loaded: Loaded, owner: str, *, dry_run: bool = False
) -> tuple[FilePlan, int | None]:
    """Apply the files of `owner`, all or nothing; with `dry_run` the change is rolled back.

    Returns the plan and the version that it led to, None if nothing changed. Raises InvalidFiles.
    """
    actions.lock_version()
    planned = plan(loaded, owner)
    by_name = {(document.kind, document.key): document for document in _documents(loaded)}
    try:
        version = actions.apply(actor, planned.edits, dry_run=dry_run).version
    except actions.InvalidEdits as invalid:
        raise InvalidFiles(
            [error for edit, fault in invalid.faults for error in _faults(loaded, by_name, edit, fault)],
            loaded.looked_for,
        ) from invalid
    except ValidationError as fault:
        raise InvalidFiles(_faults(loaded, by_name, planned.edits[0], fault), loaded.looked_for) from fault
    except actions.Conflict as conflict:
        raise InvalidFiles([ZeroError(_top(loaded), str(conflict))], loaded.looked_for) from conflict
    if planned.moved and not dry_run:
        version = actions.move_origins(actor, planned.moved, version)
    return planned, version


@transaction.atomic
def release(actor: Actor, owner: str) -> int:
    """Detach the resources of files when no file is configured any more: they stay, and can be edited.
    Returns how many they are."""
    origins = {name: "" for name, _ in _origins(owner)}
    if origins:
        actions.move_origins(actor, origins, None)
    return len(origins)


def needing_restart(running: Config, loaded: Loaded) -> tuple[str, ...]:
    """Settings with other values in the files than the node was started with. Variables take precedence."""
    by_variable = {name for name, source in running.sources.items() if source.startswith(PREFIX)}
    values = {name: setting.value for name, setting in loaded.settings.items()}
    differing = {name for name, value in values.items() if getattr(running, name) != value}
    removed = {name for name in running.sources if name not in values}
    return tuple(sorted((differing | removed) - by_variable))


def check(documents: Loaded) -> list[ZeroError]:
    """Errors of the documents of files, as far as they are known without a database."""
    errors: list[ZeroError] = []
    for document in _documents(documents):
        try:
            _checked(document, None)
        except ValidationError as fault:
            errors += _placed(documents, document, fault)
    return errors


def _documents(loaded: Loaded) -> Iterator[Document]:
    for documents in loaded.documents.values():
        yield from documents.values()


def _origins(owner: str) -> Iterator[tuple[Name, str]]:
    """The resources of the files of `owner` in the database, with their sources."""
    rows = Entry.objects.exclude(origin="").filter(origin__startswith=owner)
    for kind, key, origin in rows.values_list("kind", "key", "origin"):
        yield (kind, key), origin


def _read_all(loaded: Loaded) -> dict[Name, Spec]:
    """The resources in effect that the files contain."""
    return {
        (kind, key): spec
        for kind, documents in loaded.documents.items()
        if documents
        for key, spec in RESOURCE_TYPES[kind].read(list(documents)).items()
    }


def _with_positions(
    loaded: Loaded, current: Mapping[Name, Spec], origins: Mapping[Name, str]
) -> dict[Name, Document]:
    """All documents; those of ordered kinds with the positions that they have already, as far as the order
    allows."""
    found = {(document.kind, document.key): document for document in _documents(loaded)}
    for ordered in _ORDERED:
        foreign = {key for kind, key in current if kind == ordered and (kind, key) not in origins}
        mine = [key for key in loaded.documents[ordered] if key not in foreign]
        places = positions(
            mine, {key: current[ordered, key]["position"] for key in mine if (ordered, key) in current}
        )
        for key, place in places.items():
            document = found[ordered, key]
            # A rule of a file has no position of its own; a reflex may have one.
            found[ordered, key] = replace(document, spec={"position": place, **document.spec})
    return found


def _checked(document: Document, before: Spec | None) -> Spec:
    """The spec, completed. Raises ValidationError."""
    kind = RESOURCE_TYPES[document.kind]
    runtime_fields = {
        name: before[name] for name in kind.runtime_fields if before is not None and name in before
    }
    spec = completed(kind, document.key, {**runtime_fields, **document.spec}, before)
    kind.check(document.key, spec)
    kind.check_secrets(document.key, spec, document.secrets)
    return spec


def _changed_secrets(document: Document) -> Mapping[str, Any]:
    """The secrets of a document that differ from the present ones."""
    return (
        RESOURCE_TYPES[document.kind].changed_secrets(document.key, document.secrets)
        if document.secrets
        else {}
    )


# ------------------------------------------------------------------ errors with their positions


def _faults(
    loaded: Loaded, documents: Mapping[Name, Document], edit: Edit, fault: ValidationError
) -> list[ZeroError]:
    document = documents.get((edit.kind, edit.key))
    if document is not None:
        return _placed(loaded, document, fault)
    one = RESOURCE_TYPES[edit.kind].one
    return [
        ZeroError(_top(loaded), f"{one} {edit.key} cannot be removed: {detail}") for detail in fault.messages
    ]


def _placed(loaded: Loaded, document: Document, fault: ValidationError) -> list[ZeroError]:
    one = RESOURCE_TYPES[document.kind].one
    if not hasattr(fault, "error_dict"):
        return [loaded.error(document, "", f"{one} {document.key}: {detail}") for detail in fault.messages]
    cause = fault.__cause__
    if isinstance(cause, RuleError):
        return [loaded.error(document, "conditions", f"conditions: {cause.detail}", cause.column - 1)]
    return [
        loaded.error(document, field, f"{field}: {detail}")
        for field, details in fault.message_dict.items()
        for detail in details
    ]


def _top(loaded: Loaded) -> Position:
    return Position(next(iter(loaded.files), ""), 1, 1)
