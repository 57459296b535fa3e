"""PyTorch: modules, TorchScript and exported programs, and the runner over them."""
