"""How the site checks a password: Django's way, with an end to guessing."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

_TRIES = 10
_WINDOW_S = 60


class PatientBackend(ModelBackend):
    """After ten wrong passwords for a name from an address, the rest of the minute is refused unseen.

    By address, so that nobody can lock another user out. The data plane has its own brake (`net.login`).
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        if request is None or username is None:
            return super().authenticate(request, username, password, **kwargs)
        key = f"wrong-passwords/{request.META.get('REMOTE_ADDR', '')}/{username.encode().hex()[:100]}"
        if cache.get(key, 0) >= _TRIES:
            raise PermissionDenied
        user = super().authenticate(request, username, password, **kwargs)
        if user is None:
            cache.add(key, 0, _WINDOW_S)
            cache.incr(key)
        else:
            cache.delete(key)
        return user
