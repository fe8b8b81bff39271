"""What the configuration database holds beside Django's users. `web.actions` is the only writer."""

from typing import ClassVar

from django.conf import settings
from django.db import models


class Token(models.Model):
    """A secret that stands in for its owner's password. Only its SHA-256 is stored."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, help_text="first characters of the secret, to recognize it by")
    digest = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the secret")
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["owner", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["owner", "name"], name="token_name_once_per_owner")
        ]

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


class LoginLink(models.Model):
    """A link that logs its user in once. Using it deletes the row."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the secret in the link")
    expires = models.DateTimeField()

    def __str__(self) -> str:
        return f"login link of {self.user}"


class DestinationSettings(models.Model):
    """What was said about a destination ("/queue/orders"), a pattern ("/queue/orders.>") or all (">").

    `values` are by name, as `broker_app.net.destinations` lists them; what is not there was not said.
    """

    address = models.CharField(max_length=300, unique=True)
    values = models.JSONField(default=dict)
    version = models.PositiveBigIntegerField(help_text="the number of the change that wrote it")
    changed = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["address"]
        verbose_name_plural = "destination settings"

    def __str__(self) -> str:
        return self.address


class PolicyVersion(models.Model):
    """One row that counts the changes, so that every process notices those of the others."""

    ONLY = 1

    number = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.number)
