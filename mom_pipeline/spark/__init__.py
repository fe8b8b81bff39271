"""Spark itself: Java, its classes, its home, and the first query."""
