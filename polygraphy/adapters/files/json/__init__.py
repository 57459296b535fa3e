"""JSON documents, with arrays as base64: read, written, and what their errors say.

Uses no other room of `adapters.files`.
"""
