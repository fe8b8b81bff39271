"""docs/imqcmd.md has all commands of imqcmd, and names only commands of `mom` that exist."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperGroup

from broker_app.cli import main
from tests.support.broker_process import ROOT

PAGE = (ROOT / "docs" / "imqcmd.md").read_text(encoding="utf-8")
#: of each kind of target of imqcmd
VERBS = {
    "bkr": "shutdown restart pause resume quiesce unquiesce takeover update query list metrics",
    "cls": "reload changemaster",
    "svc": "pause resume update list query metrics",
    "cxn": "list query destroy",
    "dst": "create destroy pause resume purge compact update list query metrics",
    "dur": "list destroy purge",
    "txn": "list query commit rollback",
}
#: of imqdbmgr, which has other commands
OF_STORES = "remove bkr, upgrade hastore, recreate sharecc_tbl, restore sharecc_tbl, query, reset lck"


def test_each_command_of_imqcmd_has_its_row() -> None:
    rows = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    missing = [
        f"{verb} {target}"
        for target, verbs in VERBS.items()
        for verb in verbs.split()
        if not re.search(rf"`{verb} {target}\b", rows)
    ]
    assert not missing
    of_stores = " ".join(line.split("|")[1] for line in PAGE.splitlines() if "imqdbmgr" in line)
    assert [name for name in OF_STORES.split(", ") if f"{name}`" not in of_stores] == []


def test_each_command_of_mom_exists() -> None:
    for name in main._COMMANDS:
        main._assemble(name)
    mom: Any = typer.main.get_command(main.app)
    named = set(re.findall(r"`mom ([a-z]+(?: [a-z]+)?)", PAGE))
    assert len(named) > 20
    unknown = []
    for words in sorted(named):
        first, _, second = words.partition(" ")
        found = mom.commands.get(first)
        if isinstance(found, TyperGroup):
            found = found.commands.get(second) if second else found
        if found is None:
            unknown.append(words)
    assert not unknown
