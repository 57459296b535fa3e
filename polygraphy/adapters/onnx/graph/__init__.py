"""Graphs in memory: names, types, shapes, and edits of their parts.

May use `storage`.
"""
