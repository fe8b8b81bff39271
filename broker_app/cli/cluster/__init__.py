"""`mom cluster`."""
