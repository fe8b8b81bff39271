"""The addresses of the site: all of them are the broker's."""

from django.urls import include, path

urlpatterns = [path("", include("broker_app.web.urls"))]
