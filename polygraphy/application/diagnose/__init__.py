"""Finds out why outputs are wrong: which node, whose fault, and what to do."""
