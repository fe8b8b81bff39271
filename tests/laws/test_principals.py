"""Rights belong to identities: nothing but the login makes one of a name, and names decide about no right.

A token has a part of the rights of its owner, so who has the name of the owner does not have all rights of
the owner: `Access.has_all_rights_of` and `Access.is_own` decide.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: attributes, and calls, that are names of users
NAMES = frozenset(("owner", "sender", "user", "get_username", "username"))
_NAME, _SIGN = rf"\.({'|'.join(sorted(NAMES))})\b", r"(==|!=|\bin\b)"
#: a name and a comparison in one line, or in two that follow one another; a call
SUSPICIOUS = re.compile(rf"{_NAME}[^\n]*\n?[^\n]*{_SIGN}|{_SIGN}[^\n]*\n?[^\n]*{_NAME}|\bIdentity\(")
#: function → why it compares names, and decides about no right of a token with it
ALLOWED = {
    # -- where identities are compared
    "net/policy/access.py:has_all_rights_of": "it looks at the grants of the token as well",
    "net/policy/access.py:is_own": "it compares the tokens as well",
    "features/bulk/stage_store.py:has": "it compares the tokens as well",
    "net/auth/login.py:is_known": "the login itself",
    "net/auth/login.py:bearer": "the login itself",
    "net/auth/login.py:knows_password": "the login itself",
    # -- shares of users, and what is shown
    "features/jobs/job_manager.py:_forget_plans": "the plans of one user, of which one is forgotten",
    "features/jobs/job_manager.py:_check_room": "the share of a user",
    "core/subscriptions.py:_check_searches": "the share of a user",
    "net/rest/connections/endpoints.py:page": "a filter, which only narrows what the identity may see",
    "net/rest/connections/endpoints.py:_matches": "a filter, which only narrows what the identity may see",
    "net/rest/features/bridges.py:_check_known": "names of brokers",
    "web/impact.py:decide": "rules in a simulation; they decide by the user",
    # -- the core, which knows no tokens: who asks it was asked for the right to the destination before
    "core/topics/durable_subscriptions.py:deletable": "names of durable subscriptions belong to users",
    "core/topics/durable_subscriptions.py:_check_terms": "names of durable subscriptions belong to users",
    "core/publishing/bulk_publishing.py:_producer_of": "producers belong to users; each row is permitted",
    "core/remote/inbound_forwarding.py:_offset_of": "offsets belong to users; each target is permitted",
    "features/bulk/batch_commits.py:_commit": "names of producers belong to users; each row is permitted",
    "net/rest/destinations/subscriptions.py:delete": "needs the right to receive from its topic as well",
    "net/rest/destinations/subscriptions.py:look": "the owner is None unless the identity has all rights",
    # -- the control plane, which refuses tokens with grants but those with `administer`, or asks for them
    "web/api/resources.py:check_may": "users may read their own resource",
    "web/api/tokens.py:rows": "a token with grants sees itself alone",
    "web/api/tokens.py:key": "a token with grants sees itself alone",
    "web/api/explain.py:_query_of": "the rights of a user are no secret to the user's tokens",
    "web/api/callbacks.py:_sees": "check_token has refused tokens with grants",
    "web/console/views.py:post": "a browser session, which has all rights of its user",
}


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Each node, with the innermost function that it is in."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else within
        yield inner, node
        yield from functions(node, inner)


def is_name_of_user(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Attribute) and node.attr in NAMES


def compares_names(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and any(
        isinstance(sign, ast.Eq | ast.NotEq | ast.In | ast.NotIn)
        and (is_name_of_user(one) or is_name_of_user(other))
        and not any(isinstance(side, ast.Constant) for side in (one, other))
        for sign, one, other in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False)
    )


def makes_identity(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Identity"


def sources() -> Iterator[tuple[str, ast.AST]]:
    """The modules that may have something to find, and their trees; to parse all takes seconds."""
    for path in sorted((ROOT / "broker_app").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if SUSPICIOUS.search(text):
            yield path.relative_to(ROOT / "broker_app").as_posix(), ast.parse(text)


SOURCES = list(sources())


def test_rights_are_not_decided_by_comparing_names_of_users() -> None:
    found = {
        f"{path}:{within}"
        for path, tree in SOURCES
        for within, node in functions(tree)
        if compares_names(node)
    }
    assert found == ALLOWED.keys()


def test_only_the_login_makes_an_identity() -> None:
    found = {path for path, tree in SOURCES for _, node in functions(tree) if makes_identity(node)}
    assert found == {"net/auth/login.py"}
