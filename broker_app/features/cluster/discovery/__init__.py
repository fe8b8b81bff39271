"""Discovery of brokers by multicast."""
