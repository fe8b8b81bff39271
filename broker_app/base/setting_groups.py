"""The groups of the broker's settings, under which `mom up --help` lists them.

A group begins at a setting of `Config`, and has all that follow there until the next group begins.
"""

#: first setting of a group → its title, in the order of `Config`
TITLES = {
    "name": "broker and configuration",
    "database": "journal, mirrors",
    "host": "listening",
    "log_level": "log",
    "admin_password": "access, proxies",
    "tls_cert": "TLS",
    "cluster_port": "cluster",
    "update_cluster_clients": "clients of a cluster",
    "oidc_issuer": "single sign-on (OpenID Connect)",
    "connect_timeout": "limits of a client",
    "memory_bytes": "memory, and limits of all queues together",
    "segment_bytes": "files of the journal",
    "auto_create_queues": "queues and deliveries",
    "audit_days": "audit and history",
    "reflex_file": "reflexes",
    "alert_notify": "alerts, mail",
    "webhook_allow": "webhooks, stopping",
}
