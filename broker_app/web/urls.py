"""The addresses that Django answers."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularJSONAPIView

from broker_app.web import api, console, login, pages

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="console"), name="root"),
    path("console/", console.destinations, name="console"),
    path("login/", login.enter, name="login"),
    path("login/once/<str:secret>", login.once, name="login-once"),
    path("logout/", login.leave, name="logout"),
    path("admin/", admin.site.urls),
    path("docs/problems/", pages.problems, name="problems"),
    path("docs/problems/<str:name>", pages.problem, name="problem"),
    path("api/v1/openapi.json", SpectacularJSONAPIView.as_view(), name="openapi"),
    path("api/v1/tokens", api.Tokens.as_view(), name="tokens"),
    path("api/v1/tokens/<int:pk>", api.OneToken.as_view(), name="token"),
    path("api/v1/<path:path>", pages.no_api),
]
