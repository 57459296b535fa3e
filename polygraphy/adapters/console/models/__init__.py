"""Models, networks and engines as text."""
