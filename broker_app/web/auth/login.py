"""Logging in and out of the console."""

from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from broker_app.web import actions
from broker_app.web.auth.backends import PASSWORD, slowed
from broker_app.web.console.welcome import is_first_run
from broker_app.web.snapshot import running_config


class LoginForm(AuthenticationForm):
    """The page that shows how long to wait after too many wrong passwords."""

    def get_invalid_login_error(self) -> ValidationError:
        refusal = slowed(self.request)
        if refusal is None:
            return super().get_invalid_login_error()
        return ValidationError(f"Too many wrong passwords. Try again in {refusal.wait_s} s.", code="slowed")


class Enter(LoginView):
    """The login page."""

    authentication_form = LoginForm
    redirect_authenticated_user = True

    def get_context_data(self, **context: Any) -> dict[str, object]:
        """With the OpenID Connect provider, if there is one."""
        name = running_config().oidc_name if settings.MOM.oidc_issuer else None
        return super().get_context_data(oidc_name=name, **context)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_invalid(form)
        refusal = slowed(self.request)
        if refusal is not None:
            answer.status_code = 429
            answer.headers["Retry-After"] = str(refusal.wait_s)
        return answer


enter = Enter.as_view()
leave = LogoutView.as_view()


@never_cache
@require_GET
@sensitive_variables("secret")
def once(request: HttpRequest, secret: str) -> HttpResponse:
    """Follows a one-time link into the console: on a new data directory to the first run.

    A browser that only looks ahead does not use it up.
    """
    if "prefetch" in request.headers.get("Sec-Purpose", ""):
        return HttpResponse(status=503)
    user = actions.redeem_login_link(secret)
    if user is None:
        return render(request, "login_link_used.html", status=410)
    login(request, user, PASSWORD)
    return redirect("console:welcome" if user.is_superuser and is_first_run() else "console")
