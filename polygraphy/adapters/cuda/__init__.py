"""CUDA through cuda-python: memory, streams, events and graphs."""
