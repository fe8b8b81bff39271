"""The language of selectors: grammar, compiler, and compiled conditions."""
