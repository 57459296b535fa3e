"""The commands `inspect ...`."""
