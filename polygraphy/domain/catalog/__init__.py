"""What there is, as data: starts without NumPy."""
