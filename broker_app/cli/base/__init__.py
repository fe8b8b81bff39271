"""Parts that all commands use: brokers by name, REST, options, output, failures."""
