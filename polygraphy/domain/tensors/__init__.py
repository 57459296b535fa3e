"""Tensors: data type, shape, metadata, and values that differ by tensor name.

Uses no other room of the domain.
"""
