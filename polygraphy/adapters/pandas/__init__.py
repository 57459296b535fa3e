"""Tables of pandas."""
