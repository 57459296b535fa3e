"""Paths, atomic files, signals, and calls that ctrl-C can end.

May use the domain's errors and the ground floor.
"""
