"""Commands of `mom pipeline`: jobs that read and write brokers with Spark."""
