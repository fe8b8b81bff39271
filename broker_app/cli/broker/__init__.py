"""Commands that start, stop and control a broker as a whole."""
