"""Edits of models, one per file: extract, insert, remove, prune, strip, mark.

May use `describe`, `graph` and `storage`.
"""
