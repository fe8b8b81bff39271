"""Links to the other brokers of a cluster: frames, the handshake, and what crosses them."""
