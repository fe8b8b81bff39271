"""Commands that publish, receive, show and move messages."""
