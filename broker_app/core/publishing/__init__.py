"""Publishing: admission, limits, producers that are held back, and deduplication."""
