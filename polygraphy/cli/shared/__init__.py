"""Options that several commands have, and what they mean for a program.

May use `declare`.
"""
