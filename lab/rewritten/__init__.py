"""Faults of a model whose reference has different nodes, and what `diagnose` reports of them."""
