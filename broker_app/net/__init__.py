"""Connections: from bytes to commands and back.

Owns sessions, login, flow control and rendering; every transport feeds the same `StompSession` or, for
REST, the same commands. Never decides about messages (core) and never knows Django.
"""
