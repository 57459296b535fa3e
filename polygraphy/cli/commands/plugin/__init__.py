"""The commands `plugin ...`."""
