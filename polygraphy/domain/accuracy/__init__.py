"""Verdicts over iterations and pairs of runs.

May use `compare`, `results` and `tensors`.
"""
