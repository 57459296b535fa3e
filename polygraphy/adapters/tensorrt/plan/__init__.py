"""Plans of engines: read, deserialized, saved.

May use `library`, `network` and `describe`.
"""
