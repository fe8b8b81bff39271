"""Number formats of templates: as programs write them, in every language. Browsers localise them."""
