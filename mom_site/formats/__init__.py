"""How numbers look in templates: as programs write them, in every language. Browsers draw them for people."""
