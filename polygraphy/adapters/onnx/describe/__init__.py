"""Descriptions of models: outlines, attributes, weights and facts.

May use `graph` and `storage`.
"""
