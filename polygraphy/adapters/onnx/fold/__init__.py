"""Constant folding.

May use `graph` and `storage`.
"""
