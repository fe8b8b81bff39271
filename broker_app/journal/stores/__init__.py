"""Shared stores: PostgreSQL, Redis, and a directory."""
