"""Files of declarations in OpenMOM's form, one kind of reflex a line.

    S <service> <library> [<event> <function>]+          local service
    F <service> <library> [<event> <function>]+          filter of arrivals
    G <service> <library> [<event> <function>]+          filter of deliveries
    R <name> <library> [<service> <function>]+           filter of registrations
    D <name> <library> [<service> <function>]+           called after a deregistration

Words are separated by blanks; one with blanks stands in double quotes, where `""` is a quote. Comments begin
with `#` or `;`. At the end of a line options of its functions may stand, as `rate=10 set={"route": "eu"}`:
their values are JSON, or texts. `time-limit` (seconds) and `on-failure` (refuse or accept) belong to the
declaration.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from broker_app.base.settings.shipped_files import REFLEX_FILES
from broker_app.reflex import declaration as d
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.shipped import table

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {"S": d.SERVICE, "F": d.ARRIVAL, "G": d.DELIVERY, "R": d.REGISTRATION, "D": d.DEREGISTRATION}
)
#: bytes of a file
MAX_BYTES: Final = 1024 * 1024

_OF_MESSAGES: Final = "{0} <service> <library> [<event> <function>]+"
_OF_REGISTRATIONS: Final = "{0} <name> <library> [<service> <function>]+"
_WORD: Final = re.compile(r'"(?:[^"]|"")*"|[^\s"]+')
_OPTION: Final = re.compile(r"([A-Za-z_][\w-]*)=(.*)", re.DOTALL)
_OF_JSON: Final = re.compile(r"[A-Za-z_][\w-]*=(?=[{\[])")
_JSON: Final = json.JSONDecoder()
_TIME_LIMIT, _ON_FAILURE = "time-limit", "on-failure"


class CnfError(ValueError):
    """A file that cannot be used; the text has all errors, one a line: FILE:LINE:COLUMN: what is wrong."""


class _Wrong(Exception):
    """An error of one line, at a column."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(text)
        self.column = column


class _Word(NamedTuple):
    """A word, the column where it begins, and whether it stands in quotes."""

    text: str
    column: int
    quoted: bool


def find(path: Path) -> Path:
    """The absolute path of the file at `path`, as seen from the current directory, or of the one of this name
    that comes with MOM. Raises CnfError."""
    here = path.absolute()
    if here.is_file():
        return here
    shipped = sorted(one.name for one in REFLEX_FILES.glob("*.cnf"))
    if len(path.parts) == 1 and path.name in shipped:
        return REFLEX_FILES / path.name
    if here.exists():
        raise CnfError(f"{here} is no file; name a file with lines S, F, G, R and D")
    # OpenMOM's users write the path of a directory of Windows.
    near = difflib.get_close_matches(PureWindowsPath(path).name, shipped, n=1)
    fix = f"did you mean {near[0]}, which comes with MOM?" if near else f"{', '.join(shipped)} come with MOM"
    raise CnfError(f"there is no file {here}; {fix}")


def read(path: Path) -> list[Declaration]:
    """The declarations of a file, in their order. Raises CnfError."""
    found = find(path)
    try:
        content = found.read_bytes()
    except OSError as error:
        raise CnfError(f"{found} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise CnfError(f"{found} has {len(content)} bytes; at most {MAX_BYTES} are read")
    try:
        return parse(content.decode("utf-8-sig"), found.name, str(found))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CnfError(f"{found}:{line}: is not UTF-8; save the file as UTF-8") from error


def parse(text: str, file: str = "", path: str = "") -> list[Declaration]:
    """The declarations of a text, named after `file`. Raises CnfError with all errors, which name `path`."""
    declarations: list[Declaration] = []
    errors: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = list(_words(line))
            if words:
                declarations += _declarations(words, f"{file}:{number}", len(line) + 1)
        except _Wrong as wrong:
            errors.append(f"{path or file}:{number}:{wrong.column}: {wrong}")
    if errors:
        raise CnfError("\n".join(errors))
    return declarations


def _words(line: str) -> Iterator[_Word]:
    at = 0
    while True:
        while at < len(line) and line[at].isspace():
            at += 1
        if at == len(line) or line[at] in "#;":
            return
        option = _OF_JSON.match(line, at)
        if option is not None:
            end = _end_of_json(line, option.end())
            yield _Word(line[at:end], at + 1, False)
            at = end
            continue
        found = _WORD.match(line, at)
        if found is None:
            raise _Wrong(at + 1, 'the quotes are not closed; write " behind the name')
        end = found.end()
        if end < len(line) and line[end] == '"' and not found[0].endswith("="):
            raise _Wrong(end + 1, "a quote inside a word; put the whole word in quotes")
        text, quoted = found[0], found[0].startswith('"')
        if text.endswith("=") and end < len(line) and line[end] == '"':  # an option whose value is quoted
            value = _WORD.match(line, end)
            if value is None:
                raise _Wrong(end + 1, 'the quotes are not closed; write " behind the value')
            text, end = text + json.dumps(_unquoted(value[0])), value.end()
        elif quoted:
            text = _unquoted(text)
            if not text:
                raise _Wrong(at + 1, "an empty name; write * for everything")
        yield _Word(text, at + 1, quoted)
        at = end


def _end_of_json(line: str, start: int) -> int:
    """The end of the object or list that begins at `start`. Raises _Wrong."""
    try:
        _, end = _JSON.raw_decode(line, start)
    except ValueError as error:
        reason = str(error).partition(":")[0]
        fix = f"put a text that begins with {line[start]} in quotes"
        raise _Wrong(start + 1, f"the value is not JSON: {reason}; {fix}") from None
    except RecursionError:
        raise _Wrong(start + 1, "the value is nested too deeply") from None
    if end < len(line) and not line[end].isspace():
        raise _Wrong(end + 1, "a blank is missing behind the value")
    return end


def _unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"')


def _declarations(words: Sequence[_Word], origin: str, end: int) -> Iterator[Declaration]:
    """The declarations of one line, one for each pair."""
    letter = words[0]
    kind = KINDS.get(letter.text)
    if kind is None:
        raise _Wrong(letter.column, _unknown_kind(letter.text))
    form = (_OF_MESSAGES if kind in d.OF_MESSAGES else _OF_REGISTRATIONS).format(letter.text)
    rest, options = _divide(words[1:])
    if len(rest) < 2:
        missing = "the library" if rest else "the name"
        raise _Wrong(end, f"{missing} is missing; the form is: {form}")
    first, library, *pairs = rest
    if not pairs or len(pairs) % 2:
        missing = "a function" if pairs else "a pair"
        raise _Wrong(end, f"{missing} is missing at the end; the form is: {form}")
    facts, given = _facts(options)
    count = len(pairs) // 2
    for number in range(count):
        pattern, function = pairs[2 * number], pairs[2 * number + 1]
        name = f"{origin}.{number + 1}" if count > 1 else origin
        service, event = (first, pattern) if kind in d.OF_MESSAGES else (pattern, None)
        declaration = Declaration(
            name,
            kind,
            library.text,
            function.text,
            service.text,
            event.text if event is not None else "*",
            given,
            origin=origin,
            **facts,
        )
        places = {"service": service, "event": event or pattern, "library": library, "function": function}
        _check(declaration, places, options or [letter])
        yield declaration


def _divide(words: Sequence[_Word]) -> tuple[list[_Word], list[_Word]]:
    """The words of a line, and the options behind them."""
    rest = list(words)
    options: list[_Word] = []
    while rest and not rest[-1].quoted and _OPTION.fullmatch(rest[-1].text):
        options.append(rest.pop())
    options.reverse()
    for word in rest:
        if not word.quoted and _OPTION.fullmatch(word.text):
            raise _Wrong(word.column, f"options such as {word.text} stand at the end of the line")
    return rest, options


def _facts(options: Sequence[_Word]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The members of the declaration that options set, and the options of its functions."""
    facts: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for word in options:
        match = _OPTION.fullmatch(word.text)
        assert match is not None, "it was recognized as an option"
        name, text = match.groups()
        if name == _TIME_LIMIT:
            try:
                facts["time_limit_s"] = float(text)
            except ValueError:
                raise _Wrong(word.column, f"{name} is {text!r}; write seconds, such as 0.5") from None
        elif name == _ON_FAILURE:
            facts["on_failure"] = text
        else:
            given[name] = _value(text)
    return facts, given


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check(declaration: Declaration, places: Mapping[str, _Word], options: Sequence[_Word]) -> None:
    spec = {name: getattr(declaration, name) for name in ("kind", "service", "event", "library", "function")}
    spec |= {"on_failure": declaration.on_failure, "time_limit_s": declaration.time_limit_s}
    for name, fault in d.faults(spec).items():
        place = places.get(name, options[0])
        shown = name.replace("_s", "").replace("_", "-") if name not in places else name
        raise _Wrong(place.column, f"the {shown} {place.text!r} {fault}")
    wrong = table.fault(declaration.kind, declaration.library, declaration.function, declaration.options)
    if wrong is not None:
        place = places["function"] if wrong[0] != "options" else options[0]
        raise _Wrong(place.column, wrong[1])


def _unknown_kind(text: str) -> str:
    if text.upper() in KINDS:
        return f"a line begins with a capital letter; write {text.upper()}"
    kinds = ", ".join(f"{letter} ({kind})" for letter, kind in KINDS.items())
    return f"{text!r} is no kind of line; write one of {kinds}"
