"""The loader: reads a file with all that it includes into one tree."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from broker_app.base.suggestions import suggestion
from broker_app.zero.errors import Errors
from broker_app.zero.file_reader import File, Files, Fingerprint, Missing, Unreadable, resolve_path, text_of
from broker_app.zero.grammar import Append, Include, Set, Statement, parse
from broker_app.zero.interpreter import Interpreter
from broker_app.zero.keys import RULES, is_connection, split
from broker_app.zero.loaded import Loaded, SettingReaders
from broker_app.zero.positions import Position, SourceText
from broker_app.zero.tree import MAX_TEXT, MAX_VALUES, Resolver, TooLarge, Tree, written
from broker_app.zero.values import Pieces, Reference, Value

MAX_FILES = 100
MAX_DEPTH = 20
MAX_INCLUDES = 20_000
#: where no file of this name exists, `@include` of it with arguments adds a rule made of the arguments
MESSAGING_RULE = "security/messaging_rule.config"


def load(name: str, files: Files, words: SettingReaders) -> Loaded:
    """Load the file `name` and those that it includes. Raises InvalidFiles with all errors."""
    loading = _Loading(files)
    errors = loading.errors
    try:
        loading.read(name)
        root = Resolver(loading.tree, errors, complete=not errors).value(loading.tree.root)
        interpreter = Interpreter(words, errors, loading.files, loading.keys_by_file, loading.tree.repeats)
        loaded = interpreter.of(root, loading.looked_for)
    except TooLarge as limit:
        errors.add(limit.position, "references and includes expand these files beyond the limits")
    except RecursionError:
        errors.add(Position(name, 1, 1), "references in these files are nested too deeply")
    if errors:
        raise errors.bad(loading.looked_for)
    return loaded


class _Loading:
    """One load."""

    def __init__(self, files: Files) -> None:
        self.errors = Errors()
        self.tree = Tree(split, frozenset({RULES}), self.errors, is_connection)
        self.files: dict[str, File] = {}
        self.looked_for: dict[str, Fingerprint | None] = {}
        #: the keys that each file sets, with their positions
        self.keys_by_file: dict[str, list[tuple[str, Position]]] = {}
        self._port = files
        self._statements: dict[str, list[Statement]] = {}
        self._variables: dict[str, list[str]] = {}
        self._includes = 0
        self._left = MAX_VALUES

    def read(self, name: str) -> None:
        """Read the first file, and all that it includes."""
        try:
            self._open(name)
        except Unreadable as error:
            self.errors.add(Position(name, 1, 1), str(error))
        else:
            self._interpret(name, None, None, ((name, None),))

    def _open(self, name: str) -> None:
        """Read and parse a file unless it is known. Raises Unreadable."""
        if name in self._statements:
            return
        if len(self.files) == MAX_FILES:
            raise Unreadable(f"there are more than {MAX_FILES} files")
        self.looked_for[name] = None
        content, fingerprint = self._port.read(name)
        self.looked_for[name] = fingerprint
        self.files[name] = File(name, fingerprint, ())
        source = SourceText(name, text_of(name, content))
        self.errors.sources[name] = source
        self._statements[name] = parse(source, self.errors)
        self._variables[name] = sorted(set(_variables(self._statements[name])))

    def _interpret(
        self,
        name: str,
        variables: Mapping[str, Value] | None,
        included_at: Position | None,
        chain: tuple[tuple[str, Position | None], ...],
    ) -> None:
        """Add the statements of a file to the tree. `chain` has the including files and the positions."""
        for statement in self._statements.get(name, ()):
            position = statement.position._replace(included_at=included_at)
            if isinstance(statement, Include):
                path = self._bound(statement.path, variables, included_at)
                arguments = statement.arguments and self._bound(statement.arguments, variables, included_at)
                self._include(path, arguments, position, chain)
                continue
            self.keys_by_file.setdefault(name, []).append((statement.key, statement.position))
            value = self._bound(statement.value, variables, included_at)
            bound = statement._replace(position=position, value=value)
            self.tree.set(bound) if isinstance(bound, Set) else self.tree.append(bound)

    # ------------------------------------------------------------------ includes

    def _include(
        self,
        path: Value,
        arguments: Value | None,
        position: Position,
        chain: tuple[tuple[str, Position | None], ...],
    ) -> None:
        resolved = Resolver(self.tree, self.errors, complete=not self.errors).value(path)
        if not isinstance(resolved.content, str) or not resolved.content.strip():
            if not isinstance(resolved.content, Reference | Pieces):
                self.errors.add(path.position, "this must be the path of a file")
            return None
        including = chain[-1][0]
        name = resolve_path(including, resolved.content)
        self._includes += 1
        if self._includes > MAX_INCLUDES:
            return self.errors.add(position, f"there are more than {MAX_INCLUDES} includes")
        inner = (*chain, (name, position))
        if any(name == known for known, _ in chain):
            return self.errors.add(path.position, f"the files include each other: {_include_chain(inner)}")
        if len(chain) == MAX_DEPTH:
            return self.errors.add(
                path.position, f"files include each other more than {MAX_DEPTH} deep: {_include_chain(inner)}"
            )
        try:
            self._open(name)
        except Missing as error:
            if resolved.content == MESSAGING_RULE:
                return self._messaging_rule(arguments, position)
            return self.errors.add(path.position, f"{error}, relative to {including}")
        except Unreadable as error:
            return self.errors.add(path.position, str(error))
        file = self.files[including]
        if name not in file.includes:
            self.files[including] = file._replace(includes=(*file.includes, name))
        if arguments is None:
            return self._interpret(name, None, position.included_at, inner)
        for argument, value in arguments.parts.items():
            if argument not in self._variables[name]:
                near = suggestion(argument, self._variables[name])
                self.errors.add(value.named or value.position, f"{name} takes no argument {argument}{near}")
        return self._interpret(name, arguments.parts, position, inner)

    def _messaging_rule(self, arguments: Value | None, position: Position) -> None:
        """Add the rule that the built-in file makes of its arguments."""
        if arguments is None:
            detail = f'{MESSAGING_RULE} takes arguments: {{"conditions": "…", "users": ["…"]}}'
            return self.errors.add(position, detail)
        self.keys_by_file.setdefault(position.file, []).append((RULES, position))
        rule = replace(arguments, position=position)
        return self.tree.append(Append(RULES, position, Value((rule,), position)))

    # ------------------------------------------------------------------ variables

    def _bound(
        self, value: Value, variables: Mapping[str, Value] | None, included_at: Position | None
    ) -> Value:
        """A value of an included file with its variables replaced, at the position of the include."""
        content = value.content
        self._left -= 1
        if self._left < 0:
            raise TooLarge(value.position)
        if isinstance(content, Reference) and not content.is_key:
            found = self._variable(content, value.position, variables)
            return found.named_at(value.named) if found is not None else value
        if included_at is not None:
            named = value.named and value.named._replace(included_at=included_at)
            value = replace(value, position=value.position._replace(included_at=included_at), named=named)
        if isinstance(content, Pieces):
            return self._pieces(value, content, variables)
        inside = {name: self._bound(inner, variables, included_at) for name, inner in value.parts.items()}
        if isinstance(content, Mapping):
            return replace(value, content=inside)
        return replace(value, content=tuple(inside.values())) if value.kind == "an array" else value

    def _pieces(self, value: Value, pieces: Pieces, variables: Mapping[str, Value] | None) -> Value:
        """A string whose variables are replaced; references to keys stay until all files are read."""
        parts: list[str | Reference] = []
        for part in pieces.parts:
            if isinstance(part, str) or part.is_key:
                parts.append(part)
                continue
            found = self._variable(part, value.position, variables)
            if found is None:
                return value
            match found.content:
                case Reference():
                    parts.append(found.content)
                case Pieces():
                    parts += found.content.parts
                case _:
                    try:
                        parts.append(written(found))
                    except ValueError as error:
                        self.errors.add(value.position, f"${{{part.name}}} is {error}")
                        return value
        if sum(len(part) for part in parts if isinstance(part, str)) > MAX_TEXT or len(parts) > MAX_TEXT:
            raise TooLarge(value.position)
        if all(isinstance(part, str) for part in parts):
            return replace(value, content="".join(map(str, parts)))
        return replace(value, content=Pieces(tuple(parts)))

    def _variable(
        self, reference: Reference, position: Position, variables: Mapping[str, Value] | None
    ) -> Value | None:
        if variables is None:
            self.errors.add(
                position, f"there is no variable {reference.name}: variables are the arguments of an @include"
            )
            return None
        found = variables.get(reference.name)
        if found is None:
            near = suggestion(reference.name, list(variables))
            self.errors.add(position, f"the @include gives no argument {reference.name}{near}")
        return found


def _variables(statements: Iterable[Statement]) -> Iterator[str]:
    """The variables that statements name."""
    for value in (part for statement in statements for part in _parts(statement)):
        if isinstance(value.content, Reference):
            yield value.content.name
        elif isinstance(value.content, Pieces):
            yield from (part.name for part in value.content.parts if isinstance(part, Reference))


def _parts(statement: Statement) -> Iterator[Value]:
    """All values in a statement."""
    if not isinstance(statement, Include):
        yield from statement.value.walk()
        return
    yield from statement.path.walk()
    if statement.arguments is not None:
        yield from statement.arguments.walk()


def _include_chain(chain: tuple[tuple[str, Position | None], ...]) -> str:
    """The path of includes: zero.config:3 → a.config:1 → zero.config"""
    steps = itertools.pairwise(chain)
    lines = [f"{name}:{at.line}" for (name, _), (_, at) in steps if at is not None]
    return " → ".join([*lines, chain[-1][0]])
