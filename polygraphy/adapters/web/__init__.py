"""Pages that a browser shows."""
