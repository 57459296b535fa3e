"""The commands `surgeon ...`."""
