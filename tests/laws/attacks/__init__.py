"""What ordinary users, and servers of strangers, may send to a broker: 1 MiB of each input, by plane."""
