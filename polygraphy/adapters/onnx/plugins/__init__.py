"""Plugins in place of parts of a model.

May use `graph` and `storage`.
"""
