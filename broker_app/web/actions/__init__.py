"""Actions: the only writers of the models. Everything that is configured goes through `apply`."""

from broker_app.web.actions.actor import API, CLI, CLUSTER, CONSOLE, FILE, START, STOMP, SYSTEM, Actor
from broker_app.web.actions.answers import claim, keep, release
from broker_app.web.actions.change_set import (
    Changed,
    ChangeResult,
    Conflict,
    Edit,
    InvalidEdits,
    RefusedByCluster,
    Stale,
    apply,
    lock_version,
    policy_changed,
    policy_changing,
    trim_history,
    version_of,
)
from broker_app.web.actions.destinations import DestinationSpec, destination_spec
from broker_app.web.actions.links import create_login_link, redeem_login_link
from broker_app.web.actions.origins import move_origins
from broker_app.web.actions.subjects import Claims, external_user
from broker_app.web.actions.tokens import NewToken, create_token, make_secret, note_use, revoke_token
from broker_app.web.actions.users import ADMIN, create_user, ensure_admin, set_password, watched_users
from broker_app.web.actions.views import remove_view, save_view, views_of

__all__ = [
    "ADMIN",
    "API",
    "CLI",
    "CLUSTER",
    "CONSOLE",
    "FILE",
    "START",
    "STOMP",
    "SYSTEM",
    "Actor",
    "ChangeResult",
    "Changed",
    "Claims",
    "Conflict",
    "DestinationSpec",
    "Edit",
    "InvalidEdits",
    "NewToken",
    "RefusedByCluster",
    "Stale",
    "apply",
    "claim",
    "create_login_link",
    "create_token",
    "create_user",
    "destination_spec",
    "ensure_admin",
    "external_user",
    "keep",
    "lock_version",
    "make_secret",
    "move_origins",
    "note_use",
    "policy_changed",
    "policy_changing",
    "redeem_login_link",
    "release",
    "remove_view",
    "revoke_token",
    "save_view",
    "set_password",
    "trim_history",
    "version_of",
    "views_of",
    "watched_users",
]  # fmt: skip
