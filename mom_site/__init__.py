"""The Django site around the broker: settings, addresses, the ASGI application."""
