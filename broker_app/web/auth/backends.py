"""Password checks of the site: Django's, with a login throttle."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from broker_app.net.auth.login_throttle import LoginThrottle, Slowed, VerificationSlots

#: how Django names the way in by password, where there are several
PASSWORD = "broker_app.web.auth.backends.ThrottledBackend"

#: of this process: guesses at the console and over STOMP count together
LOGIN_THROTTLE = LoginThrottle()
#: each holds a thread
_SLOTS = VerificationSlots(32)


class ThrottledBackend(ModelBackend):
    """Checks no password after too many wrong ones (`net.auth.login_throttle`); `slowed` has the reason."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        if request is None or username is None:
            return super().authenticate(request, username, password, **kwargs)
        address = request.META.get("REMOTE_ADDR", "")
        try:
            LOGIN_THROTTLE.admit(username, address)
            with _SLOTS.taken(address), LOGIN_THROTTLE.verifying(username, address):
                user = super().authenticate(request, username, password, **kwargs)
                if user is None:
                    LOGIN_THROTTLE.wrong(username, address, password or "")
                else:
                    LOGIN_THROTTLE.right(username, address)
                return user
        except Slowed as refusal:
            request.mom_slowed = refusal  # type: ignore[attr-defined]
            raise PermissionDenied from refusal


def slowed(request: Any) -> Slowed | None:
    """The reason why the password of this request was not checked, if it was not."""
    refusal = getattr(request, "mom_slowed", None)
    return refusal if isinstance(refusal, Slowed) else None
