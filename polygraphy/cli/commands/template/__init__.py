"""The commands `template ...` and `multi-device ...`."""
