"""Use cases that run models: data, iterations, layer by layer.

Uses no other room of the application.
"""
