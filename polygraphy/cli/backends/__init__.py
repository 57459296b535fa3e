"""The backends of the command line: their options, and what they mean for a program.

May use `declare` and `shared`.
"""
