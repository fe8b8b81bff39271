"""Texts and addresses that settings have, and the groups in which settings are listed."""
