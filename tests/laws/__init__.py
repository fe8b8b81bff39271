"""Rules of the architecture that no linter can check."""
