"""Helpers that people's scripts import, behind the published modules that name them.

May use everything below the published names. Nothing of the package needs it.
"""
