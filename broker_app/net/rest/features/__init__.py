"""Endpoints of bridges, callbacks, callback brokers, reflexes and jobs."""
