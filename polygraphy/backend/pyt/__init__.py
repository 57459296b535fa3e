"""PyTorch."""

from polygraphy.adapters.torch.model_file import TorchFromPath, torch_from_path
from polygraphy.adapters.torch.runner import PytRunner

__all__ = ["PytRunner", "TorchFromPath", "torch_from_path"]
