"""Plans of engines: read, deserialised, saved.

May use `library`, `network` and `describe`.
"""
