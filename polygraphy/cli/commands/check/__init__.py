"""The commands `check ...`."""
