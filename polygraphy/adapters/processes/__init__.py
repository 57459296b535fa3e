"""Processes of the operating system."""
