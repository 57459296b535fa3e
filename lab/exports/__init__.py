"""How often `diagnose --torch` is right about what PyTorch's exporters make of programs."""
