"""The console's pages."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


@login_required
def page(request: HttpRequest) -> HttpResponse:
    """The one page; the browser fills it over STOMP."""
    return render(request, "console.html")
