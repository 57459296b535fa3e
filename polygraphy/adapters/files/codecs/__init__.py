"""How each type of result becomes a document, and back.

May use `formats` and `json`.
"""
