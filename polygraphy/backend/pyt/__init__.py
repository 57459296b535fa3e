"""PyTorch."""

from polygraphy.adapters.torch.program import TorchFromPath, torch_from_path
from polygraphy.adapters.torch.runner import PytRunner
from polygraphy.mod.deferred import deferred_names

__all__ = ["PytRunner", "TorchFromPath", "torch_from_path"]

__getattr__ = deferred_names(globals(), submodules=("runner",))
