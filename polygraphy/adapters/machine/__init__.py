"""The machine itself: what is installed on it, its devices, its environment variables."""
