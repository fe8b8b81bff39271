"""Services that register under a name, profiles that address them, and seed messages for later ones."""
