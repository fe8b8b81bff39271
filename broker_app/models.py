"""The models of the configuration database, in addition to Django's users and groups. `web.actions` is the
only writer.

Each resource type has a model of its own (see `web.resource_types`); the version and the origin of a resource
are in its `Entry`. Changes are in `Change` and `ChangedObject`, all actions in `AuditEntry`.
"""

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
    grants = models.JSONField(null=True, blank=True, help_text="which of the owner's rights; null is all")
    last_used = models.DateTimeField(null=True, blank=True, help_text="to the minute")

    class Meta:
        ordering: ClassVar = ["owner", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["owner", "name"], name="token_name_once_per_owner")
        ]

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


class ProviderSubject(models.Model):
    """A person whom an OpenID Connect provider knows by `subject`, and the user who that is here."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["issuer", "subject"], name="subject_once")]

    def __str__(self) -> str:
        return f"{self.user} at {self.issuer}"


class LoginLink(models.Model):
    """A link that logs its user in once. Using it deletes the row."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the secret in the link")
    expires = models.DateTimeField()

    def __str__(self) -> str:
        return f"login link of {self.user}"


class DestinationSettings(models.Model):
    """The settings of a destination ("/queue/orders"), a pattern ("/queue/orders.>") or all (">").

    `values` are by name, as `net.policy.destination_settings` lists them; others are not set.
    """

    address = models.CharField(max_length=300, unique=True)
    values = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["address"]
        verbose_name_plural = "destination settings"

    def __str__(self) -> str:
        return self.address


class Rule(models.Model):
    """An authorization rule. Rules are in the order of their positions; the first that matches decides."""

    ALLOW, DENY = "allow", "deny"

    name = models.CharField(max_length=100, unique=True)
    position = models.IntegerField()
    effect = models.CharField(max_length=5, choices=((ALLOW, ALLOW), (DENY, DENY)), default=ALLOW)
    conditions = models.TextField(blank=True, help_text="when it applies; empty is always")
    users = models.JSONField(default=list)
    groups = models.JSONField(default=list)
    comment = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering: ClassVar = ["position", "name"]

    def __str__(self) -> str:
        return self.name


class Broker(models.Model):
    """A broker of this installation: its addresses, and settings that apply while it runs."""

    name = models.CharField(max_length=64, unique=True)
    environment = models.CharField(max_length=40, blank=True, help_text='such as "production"')
    colour = models.CharField(max_length=10, blank=True, help_text="in which pages show the environment")
    endpoints = models.JSONField(default=list, help_text="where clients reach it")
    settings = models.JSONField(default=dict, help_text="by name, in the place of those it was started with")
    comment = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Bridge(models.Model):
    """A connection to a remote broker, over which store-and-forward queues are emptied."""

    name = models.CharField(max_length=20, unique=True)
    values = models.JSONField(default=dict, help_text="as `web.resource_types.bridges` lists them")
    password = models.TextField(blank=True, help_text="of the bridge's credentials, sealed")

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Reflex(models.Model):
    """A reflex: a function of a plug-in that decides. Reflexes are asked in the order of their positions."""

    name = models.CharField(max_length=100, unique=True)
    position = models.IntegerField()
    values = models.JSONField(default=dict, help_text="as `web.resource_types.reflexes` lists them")

    class Meta:
        ordering: ClassVar = ["position", "name"]
        verbose_name_plural = "reflexes"

    def __str__(self) -> str:
        return self.name


class Callback(models.Model):
    """A webhook: messages of a queue or topic, or notifications of them, are POSTed to a URL."""

    name = models.CharField(max_length=64, unique=True)
    values = models.JSONField(default=dict, help_text="as `web.resource_types.callbacks` lists them")
    secret = models.TextField(blank=True, help_text="that signs its requests, sealed")
    former_secret = models.TextField(blank=True, help_text="that was replaced by it, sealed")
    former_until = models.DateTimeField(null=True, blank=True, help_text="how long that signs, too")
    authorization = models.TextField(blank=True, help_text="the header of that name, sealed")

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Mask(models.Model):
    """A mask: headers and fields of messages that are hidden from users who look at them."""

    name = models.CharField(max_length=100, unique=True)
    values = models.JSONField(default=dict, help_text="as `web.resource_types.masks` lists them")

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class AlertRule(models.Model):
    """An alert rule: a condition, and the targets of notifications."""

    name = models.CharField(max_length=100, unique=True)
    values = models.JSONField(default=dict, help_text="as `web.resource_types.alerts` lists them")

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Entry(models.Model):
    """The fields that all resources share: the version, and the source if that is a file."""

    kind = models.CharField(max_length=20)
    key = models.CharField(max_length=300)
    version = models.PositiveBigIntegerField(help_text="the number of the change that wrote it")
    origin = models.CharField(max_length=500, blank=True, help_text='"zero.config:31"; empty is the database')
    changed = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["kind", "key"]
        verbose_name_plural = "entries"
        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "key"], name="entry_once")]

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"


class PolicyVersion(models.Model):
    """One row that counts the changes, so that every process notices those of the others."""

    ONLY = 1

    number = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.number)


class Change(models.Model):
    """One change of the configuration: who made it, and why. Its number is the version it led to."""

    number = models.PositiveBigIntegerField(primary_key=True)
    time = models.DateTimeField()
    author = models.CharField(max_length=150)
    via = models.CharField(max_length=20, help_text="console, api, cli, file, start, …")
    address = models.CharField(max_length=200, blank=True, help_text="where the author was")
    reason = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering: ClassVar = ["-number"]

    def __str__(self) -> str:
        return f"version {self.number} by {self.author}"


class ChangedObject(models.Model):
    """One resource before and after a change. Secrets are named, without their values."""

    change = models.ForeignKey(Change, on_delete=models.CASCADE, related_name="objects_changed")
    kind = models.CharField(max_length=20)
    key = models.CharField(max_length=300)
    before = models.JSONField(null=True, help_text="null: it was not there")
    after = models.JSONField(null=True, help_text="null: it is gone")
    secrets = models.JSONField(default=list, help_text="names of the secrets that were replaced")
    origin = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        indexes: ClassVar = [models.Index(fields=["kind", "key"], name="changed_object_of")]

    def __str__(self) -> str:
        return f"{self.kind}/{self.key} in {self.change}"


class KeptAnswer(models.Model):
    """The answer to a request with an Idempotency-Key, for repeats within a day."""

    user = models.CharField(max_length=150)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256, in hex, of the request")
    created = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True, help_text="null: it is under way")
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True)
    withheld = models.BooleanField(default=False, help_text="the body held a secret, which is not kept")

    class Meta:
        ordering: ClassVar = ["created"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["user", "key"], name="one_answer_of_key")]

    def __str__(self) -> str:
        return f"answer to {self.user}'s request {self.key}"


class AuditEntry(models.Model):
    """One audited action. Each entry's digest covers the previous digest, so that a missing entry shows."""

    number = models.BigAutoField(primary_key=True)
    time = models.DateTimeField()
    author = models.CharField(max_length=150)
    via = models.CharField(max_length=20)
    address = models.CharField(max_length=200, blank=True)
    token = models.CharField(max_length=100, blank=True)
    action = models.CharField(max_length=40, help_text="created, changed, removed, logged in, …")
    kind = models.CharField(max_length=20, blank=True)
    key = models.CharField(max_length=300, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    secrets = models.JSONField(default=list, help_text="names of the secrets that were replaced")
    reason = models.CharField(max_length=1000, blank=True)
    trace_id = models.CharField(max_length=32, blank=True)
    change = models.PositiveBigIntegerField(null=True, help_text="the version that it led to")
    digest = models.CharField(max_length=64, help_text="SHA-256, in hex, of the one before and of this entry")

    class Meta:
        ordering: ClassVar = ["-number"]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.number}: {self.author} {self.action} {self.kind}/{self.key}"


class AuditChain(models.Model):
    """One row: where the chain of the audit log begins and ends, so that a lost end shows too."""

    ONLY = 1

    pruned = models.PositiveBigIntegerField(default=0, help_text="number of the last entry that was let go")
    pruned_digest = models.CharField(max_length=64, default="0" * 64)
    last = models.PositiveBigIntegerField(default=0, help_text="number of the newest entry")
    last_digest = models.CharField(max_length=64, default="0" * 64)

    def __str__(self) -> str:
        return f"audit entries {self.pruned + 1} to {self.last}"


class SavedView(models.Model):
    """An address of the console with a name. `owner` is a user's name; `shared` shows it to all users."""

    owner = models.CharField(max_length=150)
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=2000)
    shared = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar = ["name", "owner"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["owner", "name"], name="view_name_once_per_owner")
        ]

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"
