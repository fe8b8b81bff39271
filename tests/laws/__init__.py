"""Laws of the house that no linter can check."""
