"""The command line `mom`."""
