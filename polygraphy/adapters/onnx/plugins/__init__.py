"""Plugins in the place of parts of a model.

May use `graph` and `storage`.
"""
