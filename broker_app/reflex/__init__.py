"""Reflexes: functions of plug-ins that decide about registrations, messages and deliveries."""
