"""The addresses of the site: all of them are the broker's."""

from django.urls import include, path

handler404 = "broker_app.web.pages.nowhere"
handler500 = "broker_app.web.pages.failed"

urlpatterns = [path("", include("broker_app.web.urls"))]
