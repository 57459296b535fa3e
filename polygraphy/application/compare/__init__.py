"""Use cases that compare runs and judge results.

May use `run`.
"""
