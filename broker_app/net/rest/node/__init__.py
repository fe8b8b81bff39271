"""Endpoints about the node: figures, alerts, mirrors, metrics, shutdown."""
