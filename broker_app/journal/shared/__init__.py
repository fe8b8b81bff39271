"""The journal in a shared store: its lease, reading, upkeep, and a private copy."""
