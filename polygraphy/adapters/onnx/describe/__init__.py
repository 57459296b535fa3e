"""Models for people: outlines, attributes, weights and what they are for.

May use `graph` and `storage`.
"""
