"""The transports of STOMP: TCP and TLS, WebSocket, within the process."""
