"""The command `run`: its backends, and checks of their combinations."""
