"""The brokers that share a journal: who is alive, at which address, and who took over."""
