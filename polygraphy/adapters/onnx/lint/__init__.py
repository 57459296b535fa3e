"""What is wrong with a model, node by node.

May use `describe`, `run` and `storage`.
"""
