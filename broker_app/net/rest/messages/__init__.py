"""Endpoints for messages: publish, receive, settle, browse, stream, in bulk."""
