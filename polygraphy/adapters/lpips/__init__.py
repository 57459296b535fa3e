"""How different images look: LPIPS, computed by the package lpips with PyTorch."""
