"""Tests of the pure core: one module for each of its modules, scenarios once found, and storms."""
