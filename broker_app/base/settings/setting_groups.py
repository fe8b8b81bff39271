"""The groups of the broker's settings, under which `mom up --help` lists them.

A group begins at a setting of `Config`, and has all that follow there until the next group begins.
"""

from typing import Final

from broker_app.base.marked import mark as _

#: first setting of a group → its title, in the order of `Config`
TITLES: Final = {
    "name": _("broker and configuration"),
    "database": _("journal, mirrors"),
    "host": _("listening"),
    "log_level": _("log"),
    "admin_password": _("access, proxies"),
    "tls_cert": _("TLS"),
    "cluster_port": _("cluster"),
    "update_cluster_clients": _("clients of a cluster"),
    "oidc_issuer": _("single sign-on (OpenID Connect)"),
    "connect_timeout": _("limits of a client"),
    "memory_bytes": _("memory, and limits of all queues together"),
    "segment_bytes": _("files of the journal"),
    "auto_create_queues": _("queues and deliveries"),
    "audit_days": _("audit and history"),
    "reflex_file": _("reflexes"),
    "alert_notify": _("alerts, mail"),
    "webhook_allow": _("webhooks, stopping"),
}
