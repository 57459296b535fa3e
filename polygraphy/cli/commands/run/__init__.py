"""The command `run`: which backends run what, and what cannot be meant together."""
