"""The journal that the settings name: opened for a broker or offline, identified, copied, recovered."""
