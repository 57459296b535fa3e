"""Tables of names and options, without NumPy, so that commands start fast."""
