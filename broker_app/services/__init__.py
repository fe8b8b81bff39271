"""The services of a node: background tasks apart from the path of messages, each with a state of its own."""
