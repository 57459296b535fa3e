"""Backends, one module each: loaders, and the runner."""
