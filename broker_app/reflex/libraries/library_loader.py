"""Loading of libraries: from the directory of `MOM_REFLEX_PATH`, or from entry points of packages."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final

from broker_app.base.process import ownership
from broker_app.reflex.api import GROUP
from broker_app.reflex.functions import Library

#: libraries of OpenMOM, in lower case, and those of MOM that take their place
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"re_localservice": "RE_LocalService", "re_logservice": "RE_LogService"}
)
#: libraries of MOM that run in a process, and their modules
SHIPPED: Final[Mapping[str, str]] = MappingProxyType({"mom-schema": "broker_app.reflex.shipped.schema"})
#: the hook with which a module says itself which functions it has
_HOOK: Final = "mom_functions"


def canonical(library: str) -> str:
    """The name of a library; those of OpenMOM may be written in any case, and as files."""
    name = library.lower().removesuffix(".dll")
    return ALIASES.get(name, library)


def load(library: str, directory: str) -> Library:
    """Import a library. Raises LookupError when there is none of this name, ForeignPath for a directory that
    other users can write, and what its code raises."""
    module = _shipped(library) or _from_directory(library, directory) or _from_entry_point(library)
    if module is None:
        raise LookupError(_missing(library, directory))
    return Library(library, module)


def _shipped(library: str) -> ModuleType | None:
    return importlib.import_module(SHIPPED[library]) if library in SHIPPED else None


def _from_directory(library: str, directory: str) -> ModuleType | None:
    if not directory or not library.isidentifier():
        return None
    ownership.check_tree(Path(directory))
    path = _file(library, directory)
    if path is None:
        return None
    if directory not in sys.path:
        sys.path.append(directory)  # for modules next to it; those of Python come first
    spec = importlib.util.spec_from_file_location(library, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[library] = module
    spec.loader.exec_module(module)
    return module


def _file(library: str, directory: str) -> Path | None:
    """The source of a library in the directory; None if it has none."""
    if not directory or not library.isidentifier():
        return None
    folder = Path(directory)
    places = folder / f"{library}.py", folder / library / "__init__.py"
    return next((path for path in places if path.is_file()), None)


def _from_entry_point(library: str) -> ModuleType | None:
    for entry_point in metadata.entry_points(group=GROUP, name=library):
        found: ModuleType = entry_point.load()
        return found
    return None


def fault(library: str, function: str, directory: str) -> tuple[str, str] | None:
    """The member of a declaration that names what is not there, and the error; None if there is none.

    Nothing of the library is run: its source is read, and one from an entry point is only looked up."""
    if library in SHIPPED:
        return None
    path = _file(library, directory)
    if path is None:
        found = any(metadata.entry_points(group=GROUP, name=library))
        return None if found else ("library", _missing(library, directory))
    try:
        names = _names(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError) as error:
        return "library", f"{path} cannot be loaded: {error}"
    if function in names or _HOOK in names:
        return None
    public = ", ".join(sorted(name for name in names if not name.startswith("_"))[:20]) or "none"
    return "function", f"library {library} has no function {function}; it has {public}"


def _names(tree: ast.Module) -> set[str]:
    """All names that a module may bind, wherever it does so."""
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in tree.body if isinstance(node, defined)}
    for node in tree.body:
        if not isinstance(node, defined):  # such as an assignment, or definitions within `try`
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            names |= {one.name for one in ast.walk(node) if isinstance(one, defined)}
    return names


def known(directory: str) -> list[str]:
    """The names of libraries that can be loaded."""
    names = set(SHIPPED) | {one.name for one in metadata.entry_points(group=GROUP)}
    folder = Path(directory) if directory else None
    if folder is not None and folder.is_dir():
        names |= {path.stem for path in folder.glob("*.py") if path.stem.isidentifier()}
        names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    return sorted(names)


def functions_of(library: str, directory: str) -> list[str]:
    """The public functions of a library in a directory, as its source has them; none if it cannot be read.
    Nothing of it is run."""
    path = _file(library, directory)
    if path is None:
        return []
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, defined) and not node.name.startswith("_")]


def _missing(library: str, directory: str) -> str:
    names = known(directory)
    near = difflib.get_close_matches(library, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    where = f"in {directory}" if directory else "in a directory (MOM_REFLEX_PATH is not set)"
    return f"there is no library {library} {where}, nor an entry point {library} in the group {GROUP}{hint}"
