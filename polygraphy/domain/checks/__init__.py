"""Findings about a model: lint, compatibility, capability.

May use `model`.
"""
