"""Models and files that the tests need, built on demand and the same on every machine."""
