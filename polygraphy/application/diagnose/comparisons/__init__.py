"""Comparisons that oracles make for their steps."""
