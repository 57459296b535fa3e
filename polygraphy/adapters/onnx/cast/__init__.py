"""Models in another precision: which nodes are cast, and what becomes of their weights.

May use `graph` and `storage`.
"""
