"""What is known about a graph in memory: names, types, shapes, and edits of its parts.

May use `storage`.
"""
