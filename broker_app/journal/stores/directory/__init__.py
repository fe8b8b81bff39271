"""The shared store in a directory, on one machine or on a shared file system."""
