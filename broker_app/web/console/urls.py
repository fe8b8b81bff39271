"""The addresses of the console's pages. A thing is named by `?name=`, which takes any name there is."""

from django.urls import path

from broker_app.web.console import (
    audit,
    bridges,
    brokers,
    denials,
    explain,
    groups,
    rules,
    tokens,
    users,
    versions,
)

app_name = "console"
urlpatterns = [
    path("rules/", rules.Rules.as_view(), name="rules"),
    path("rules/add", rules.AddRule.as_view(), name="rules-add"),
    path("rules/edit", rules.EditRule.as_view(), name="rules-edit"),
    path("rules/remove", rules.RemoveRule.as_view(), name="rules-remove"),
    path("rules/move", rules.MoveRule.as_view(), name="rules-move"),
    path("rules/denials", denials.DenialsPage.as_view(), name="denials"),
    path("explain", explain.ExplainPage.as_view(), name="explain"),
    path("users/", users.Users.as_view(), name="users"),
    path("users/add", users.AddUser.as_view(), name="users-add"),
    path("users/edit", users.EditUser.as_view(), name="users-edit"),
    path("users/remove", users.RemoveUser.as_view(), name="users-remove"),
    path("groups/", groups.Groups.as_view(), name="groups"),
    path("groups/add", groups.AddGroup.as_view(), name="groups-add"),
    path("groups/edit", groups.EditGroup.as_view(), name="groups-edit"),
    path("groups/remove", groups.RemoveGroup.as_view(), name="groups-remove"),
    path("tokens/", tokens.Tokens.as_view(), name="tokens"),
    path("tokens/add", tokens.AddToken.as_view(), name="tokens-add"),
    path("tokens/remove", tokens.RevokeToken.as_view(), name="tokens-remove"),
    path("brokers/", brokers.Brokers.as_view(), name="brokers"),
    path("brokers/add", brokers.AddBroker.as_view(), name="brokers-add"),
    path("brokers/edit", brokers.EditBroker.as_view(), name="brokers-edit"),
    path("brokers/remove", brokers.RemoveBroker.as_view(), name="brokers-remove"),
    path("bridges/", bridges.Bridges.as_view(), name="bridges"),
    path("bridges/add", bridges.AddBridge.as_view(), name="bridges-add"),
    path("bridges/edit", bridges.EditBridge.as_view(), name="bridges-edit"),
    path("bridges/remove", bridges.RemoveBridge.as_view(), name="bridges-remove"),
    path("audit/", audit.AuditPage.as_view(), name="audit"),
    path("configuration/", versions.VersionsPage.as_view(), name="configuration"),
    path("configuration/versions/", versions.VersionsPage.as_view(), name="versions"),
    path("configuration/versions/<int:number>", versions.VersionPage.as_view(), name="version"),
    path("configuration/comparison", versions.ComparisonPage.as_view(), name="comparison"),
    path("configuration/back", versions.BackPage.as_view(), name="back"),
    path("configuration/undo", versions.UndoPage.as_view(), name="undo"),
]
