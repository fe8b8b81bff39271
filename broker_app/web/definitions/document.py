"""The document itself: its form, read from JSON and YAML and written as both."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, cast

import yaml

from broker_app.web.resource_types import RESOURCE_TYPES, Spec
from broker_app.web.resource_types.resource_type import unknown

FORMAT = 1
MARK = "mom_definitions"
#: members of a document that describe it and are not compared
_ABOUT = (MARK, "version")
DEFINED = tuple(name for name in RESOURCE_TYPES if name != "tokens")
MAX_BYTES = 8 * 1024 * 1024
MAX_NESTING = 50

Document = dict[str, dict[str, Spec]]


class Fault(NamedTuple):
    """Something wrong at a place of a document, given as a JSON pointer; or at a line of its text, in the
    detail too. Lines and columns count from 1; 0 is unknown."""

    pointer: str
    detail: str
    line: int = 0
    column: int = 0


class InvalidDocument(Exception):
    """A document that will not do."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(
            "; ".join(f"{fault.pointer or 'the document'}: {fault.detail}" for fault in faults[:3])
        )
        self.faults = faults


def to_json(document: Mapping[str, Any]) -> str:
    """The document for version control: indented, a line for each value."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_yaml(document: Mapping[str, Any]) -> str:
    """The document as YAML."""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def from_json(content: bytes) -> Document:
    """The document in a JSON text. Raises InvalidDocument."""
    try:
        found = json.loads(_text(content), object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise InvalidDocument(Fault("", "it is nested too deeply")) from None
    except json.JSONDecodeError as error:
        raise InvalidDocument(Fault("", f"line {error.lineno}, column {error.colno}: {error.msg}")) from None
    except ValueError as error:
        raise InvalidDocument(Fault("", str(error))) from None
    return _checked(found)


def from_yaml(content: bytes) -> Document:
    """The document in a YAML text. Raises InvalidDocument, for aliases too: what is small may mean much."""
    text = _text(content)
    try:
        _look_over(text)
        found = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        detail = ", ".join(filter(None, (error.context, error.problem)))
        if mark is None:
            raise InvalidDocument(Fault("", detail)) from None
        line, column = mark.line + 1, mark.column + 1
        raise InvalidDocument(Fault("", f"line {line}, column {column}: {detail}", line, column)) from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidDocument(Fault("", str(error).splitlines()[0])) from None
    return _checked(found)


def node_at(text: str, pointer: str) -> yaml.Node | None:
    """The node at a position of a YAML document, or the nearest above it; None if it is no YAML."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError:
        return None
    for name in pointer.split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next((value for key, value in pairs if key.value == name), None)
        if found is None:
            break
        node = found
    return node


def _text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise InvalidDocument(Fault("", f"it has more than {MAX_BYTES} bytes"))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidDocument(Fault("", f"byte {error.start} is not UTF-8")) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name} occurs twice in one object")
        found[name] = value
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _checked(found: Any) -> Document:
    """The kinds of a document. Raises InvalidDocument with all that is wrong with its form."""
    if not isinstance(found, dict) or MARK not in found:
        raise InvalidDocument(Fault("", f'it must be an object that begins with "{MARK}": {FORMAT}'))
    if found[MARK] != FORMAT or isinstance(found[MARK], bool):
        raise InvalidDocument(Fault(f"/{MARK}", f"must be {FORMAT}; no other format is supported"))
    faults = []
    for name, things in found.items():
        if name in _ABOUT:
            continue
        if name not in DEFINED:
            why = "tokens are no part of definitions" if name == "tokens" else unknown(str(name), DEFINED)
            faults.append(Fault(pointer(str(name)), why))
        elif not isinstance(things, dict):
            faults.append(Fault(pointer(name), "must be an object of names and specs"))
        else:
            faults += [
                Fault(pointer(name, str(key)), "must be an object with a text as its name")
                for key, spec in things.items()
                if not isinstance(key, str) or not _is_object(spec)
            ]
    if faults:
        raise InvalidDocument(*faults)
    return {name: RESOURCE_TYPES[name].with_positions(found[name]) for name in DEFINED if name in found}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def _look_over(text: str) -> None:
    """Refuses what should not be built at all: aliases, and depths of nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise _at(event, "an alias (*); say it again instead")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING:
                raise _at(event, "it is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def pointer(*names: str) -> str:
    """The JSON pointer of a place."""
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names)


def _at(place: yaml.Event | yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=cast("yaml.Mark", place.start_mark))


class _Loader(yaml.CSafeLoader):
    """Only JSON's values: no times, and no name twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _at(key, "a name must be a text")
            if key.value in seen:
                raise _at(key, f"{key.value} occurs twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    sign: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for sign, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
