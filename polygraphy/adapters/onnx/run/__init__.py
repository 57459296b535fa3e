"""Models in the reference evaluator, whole, by layers and by parts.

May use `edit`, `describe`, `graph` and `storage`.
"""
