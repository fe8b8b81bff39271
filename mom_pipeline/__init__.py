"""Jobs that read and write brokers with Spark, and the session that they run in."""
