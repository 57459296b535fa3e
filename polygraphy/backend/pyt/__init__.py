"""PyTorch."""

from polygraphy.adapters.torch.program import TorchFromPath, torch_from_path
from polygraphy.adapters.torch.runner import PytRunner
from polygraphy.adapters.torch.source import TorchProgram
from polygraphy.mod.deferred import defer_names

__all__ = ["PytRunner", "TorchFromPath", "TorchProgram", "torch_from_path"]

__getattr__ = defer_names(globals(), submodules=("runner",))
