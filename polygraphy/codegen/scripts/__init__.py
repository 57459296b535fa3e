"""What the program of each command is about: the context of its template.

May use `parts`.
"""
