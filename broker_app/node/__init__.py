"""The node: starts and stops all parts, and what else belongs to the process of a broker."""
