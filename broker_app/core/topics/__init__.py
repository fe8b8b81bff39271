"""Topics: subscriptions by filter, histories and their replay."""
