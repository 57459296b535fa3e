"""Builds: configuration, profiles, timing caches, tactics and progress.

May use all rooms but `runtime`.
"""
