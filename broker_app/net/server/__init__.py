"""The servers of a node: sockets, HTTP and WebSocket, and the entry of Channels."""
