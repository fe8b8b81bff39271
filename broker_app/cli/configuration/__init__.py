"""Commands that change what is configured: resources, rules, versions, definitions."""
