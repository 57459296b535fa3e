"""The commands `debug ...`."""
