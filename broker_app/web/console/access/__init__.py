"""Pages of users, tokens and rules, and of what they allowed."""
