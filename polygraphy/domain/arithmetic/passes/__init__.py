"""Passes over arrays in blocks, with bounded scratch memory: what the statistics are computed with.

Uses no other room of the domain.
"""
