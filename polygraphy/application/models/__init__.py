"""Use cases about one model: show, check, edit.

May use `run` and `compare`.
"""
