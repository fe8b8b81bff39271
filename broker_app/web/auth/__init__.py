"""Logins of the console and of the control plane, and the secrets that they need."""
