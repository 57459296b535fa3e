"""Checks of a model, node by node.

May use `describe`, `run` and `storage`.
"""
