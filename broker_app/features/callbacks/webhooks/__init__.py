"""Webhooks: messages of a queue or topic, or notifications of them, are POSTed to a URL.

`supervisor` has a `Webhook` for each `Callback` of the configuration. Each pushes by a `Sender` to a `Host`,
which all callbacks of one owner to one receiver share, and by a poster: an HTTP client here, or a worker
elsewhere.
"""
