"""Django's admin as a window: everything can be looked at, nothing changed.

Changes go through `web.actions`, which keep versions, history and audit log; a second way in would not.
"""

from typing import Any

import django.contrib.auth.admin  # noqa: F401 - registers the users that are replaced below
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponseBadRequest
from django.utils.html import escape

from broker_app.models import (
    AuditChain,
    AuditEntry,
    Bridge,
    Broker,
    Change,
    ChangedObject,
    DestinationSettings,
    Entry,
    PolicyVersion,
    Rule,
    Token,
)


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A read-only list of rows. It has no filters by field: they would reveal hidden fields letter by
    letter."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """The list; a lookup that is refused is one line of the log, and no traceback."""
        try:
            return super().changelist_view(request, extra_context)
        except DisallowedModelAdminLookup as refused:
            return HttpResponseBadRequest(escape(refused))

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    list_display = ("name", "owner", "prefix", "created", "expires")
    exclude = ("digest",)


@admin.register(DestinationSettings)
class DestinationSettingsAdmin(ReadOnlyAdmin):
    list_display = ("address", "values")


@admin.register(Rule)
class RuleAdmin(ReadOnlyAdmin):
    list_display = ("name", "position", "effect", "conditions", "users", "groups")


@admin.register(Broker)
class BrokerAdmin(ReadOnlyAdmin):
    list_display = ("name", "environment", "settings")


@admin.register(Bridge)
class BridgeAdmin(ReadOnlyAdmin):
    list_display = ("name", "values")
    exclude = ("password",)


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    list_display = ("kind", "key", "version", "origin", "changed")


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin):
    list_display = ("number", "time", "author", "via", "reason")


@admin.register(ChangedObject)
class ChangedObjectAdmin(ReadOnlyAdmin):
    list_display = ("change", "kind", "key")


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("number", "time", "author", "via", "action", "kind", "key")


@admin.register(AuditChain)
class AuditChainAdmin(ReadOnlyAdmin):
    list_display = ("pruned", "last")


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    list_display = ("number",)


class UserAdmin(ReadOnlyAdmin):
    list_display = ("username", "is_active", "is_superuser", "last_login")
    exclude = ("password",)


admin.site.unregister(User)
admin.site.unregister(Group)
admin.site.register(User, UserAdmin)
