"""The addresses that Django answers."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, register_converter
from django.urls.converters import PathConverter
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularJSONAPIView

from broker_app.web import docs, languages, pages
from broker_app.web.api import (
    audit,
    bridges,
    callbacks,
    configuration,
    decisions,
    definitions,
    destinations,
    explain,
    pipeline,
    reconciliations,
    resources,
    tokens,
    versions,
)
from broker_app.web.auth import login
from broker_app.web.console.overview import OverviewPage


class NameConverter(PathConverter):
    """Any text: views report invalid names."""

    regex = r"[\s\S]+"


register_converter(NameConverter, "name")

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="console"), name="root"),
    path("console/", OverviewPage.as_view(), name="console"),
    path("console/", include("broker_app.web.console.urls")),
    path("console/words/<str:language>/<str:known>.js", languages.words, name="words"),
    path("login/", login.enter, name="login"),
    path("login/once/<str:secret>", login.once, name="login-once"),
    path("logout/", login.leave, name="logout"),
    # Passwords are changed where that is versioned and audited.
    path("admin/password_change/", RedirectView.as_view(pattern_name="console")),
    path("admin/", admin.site.urls),
    path("docs/", docs.ApiPage.as_view(), name="docs"),
    path("docs/problems/", pages.problems, name="problems"),
    path("docs/problems/<str:name>", pages.problem, name="problem"),
    path("api/v1/openapi.json", SpectacularJSONAPIView.as_view(), name="openapi"),
    path("api/v1/bridges/<str:name>/clone", bridges.CloneBridge.as_view()),
    path("api/v1/callbacks/<str:name>/rotate", callbacks.RotateSecret.as_view()),
    path("api/v1/forwarding/test", bridges.TryBridge.as_view()),
    *(
        path(f"api/v1/{resource.path or resource.kind}{rest}", resource.as_view())
        for resource in (
            resources.Rules,
            resources.Masks,
            resources.Users,
            resources.Groups,
            tokens.Tokens,
            resources.Brokers,
            resources.Bridges,
            callbacks.Callbacks,
            resources.Reflexes,
            resources.AlertRules,
        )
        for rest in ("", "/<name:name>")
    ),
    path("api/v1/explain", explain.Explain.as_view(), name="explain"),
    path("api/v1/decisions", decisions.Decisions.as_view(), name="decisions"),
    path("api/v1/decisions/denials", decisions.Denials.as_view(), name="denials"),
    path("api/v1/config", configuration.Configuration.as_view(), name="configuration"),
    path("api/v1/config/files", configuration.Files.as_view(), name="configuration-files"),
    path("api/v1/config/check", configuration.Check.as_view(), name="configuration-check"),
    path("api/v1/config/versions", versions.Versions.as_view()),
    path("api/v1/config/versions/<str:number>", versions.OneVersion.as_view()),
    path("api/v1/config/versions/<str:number>/diff/<str:other>", versions.Difference.as_view()),
    path("api/v1/config/rollback", versions.Rollback.as_view()),
    path("api/v1/pipeline/runs", pipeline.Runs.as_view()),
    path("api/v1/pipeline/runs/<str:name>", pipeline.Run.as_view()),
    path("api/v1/pipeline/runs/<str:name>/report", pipeline.Report.as_view()),
    path("api/v1/pipeline/runs/<str:name>/stop", pipeline.Stop.as_view()),
    path("api/v1/pipeline/runs/<str:name>/reconciliation", reconciliations.ReconciliationResult.as_view()),
    path("api/v1/pipeline/statistics", pipeline.Statistics.as_view()),
    path("api/v1/audit", audit.AuditLog.as_view()),
    path("api/v1/audit/verify", audit.Verification.as_view()),
    path("api/v1/definitions", definitions.Definitions.as_view()),
    path("api/v1/definitions/plan", definitions.DefinitionsPlan.as_view()),
    path("api/v1/destinations/settings", destinations.Patterns.as_view(), name="patterns"),
    path("api/v1/destinations/settings/<name:name>", destinations.PatternSettings.as_view(), name="pattern"),
    path("api/v1/queues", destinations.NamedQueue.as_view()),
    path("api/v1/queues/<name:name>", destinations.QueueSettings.as_view(), name="queue"),
    path("api/v1/topics", destinations.NamedTopic.as_view()),
    path("api/v1/topics/<name:name>", destinations.TopicSettings.as_view(), name="topic"),
    path("api/v1/<name:path>", pages.no_api),
]

if settings.MOM.oidc_issuer is not None:
    from broker_app.web.auth import oidc

    urlpatterns += [
        path("login/oidc/", oidc.enter, name="oidc"),
        # allauth asks for it by this name.
        path(
            "login/oidc/callback/", oidc.callback, {"provider_id": oidc.PROVIDER}, "openid_connect_callback"
        ),
    ]
