"""Execution profiles: the time of each executed node, joined by the nodes of a model."""
