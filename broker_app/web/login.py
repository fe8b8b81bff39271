"""Logging in and out of the console."""

from django.contrib.auth import login
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from broker_app.web import actions

enter = LoginView.as_view(redirect_authenticated_user=True)
leave = LogoutView.as_view()


@never_cache
@require_GET
@sensitive_variables("secret")
def once(request: HttpRequest, secret: str) -> HttpResponse:
    """Follows a one-time link into the console. A browser that only looks ahead does not use it up."""
    if "prefetch" in request.headers.get("Sec-Purpose", ""):
        return HttpResponse(status=503)
    user = actions.redeem_login_link(secret)
    if user is None:
        return render(request, "login_link_used.html", status=410)
    login(request, user)
    return redirect("console")
