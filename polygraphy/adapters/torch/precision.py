"""The precision in which PyTorch computes float32 on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from polygraphy import mod
from polygraphy.domain.catalog.compute import TF32, TF32_ENVIRONMENT, ComputePrecision
from polygraphy.ports.machine import computes_in_tf32, is_tf32_forced

torch = mod.lazy_import("torch>=2.2")

_HALVES = ("bfloat16", "float16")
_PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "attention", "einsum")


def compute_precision(model: Any, device: Any) -> ComputePrecision | None:
    """Return the precision of a model's operators on float32 tensors; None if it is float32.

    PyTorch computes convolutions and recurrent layers in TF32 by default, and matrix products if
    ``torch.backends.cuda.matmul.allow_tf32`` or ``torch.set_float32_matmul_precision`` allows it.

    Args:
        model: a module, TorchScript, or an exported program.
        device: the ``torch.device`` on which it runs.
    """
    if device is None or device.type != "cuda" or not computes_in_tf32(device.index or 0):
        return None
    used = set(_operations(model))
    has_convolutions = any("conv" in name for name in used)
    has_recurrent = any(part in name for name in used for part in ("lstm", "gru", "rnn"))
    has_products = any(part in name for name in used for part in _PRODUCTS)
    by_cudnn = torch.backends.cudnn.allow_tf32 or is_tf32_forced()
    by_cublas = torch.backends.cuda.matmul.allow_tf32 or is_tf32_forced()
    operators = [
        *(["convolutions"] if has_convolutions and by_cudnn else []),
        *(["recurrent layers"] if has_recurrent and by_cudnn else []),
        *(["matrix products"] if has_products and by_cublas else []),
    ]
    if not operators:
        return None
    return ComputePrecision(TF32, tuple(operators), "torch", f"{TF32_ENVIRONMENT}=0")


def stored_precision(model: Any) -> str | None:
    """Return the half precision of a model's weights, such as ``bfloat16``, or None.
    The result is None if no weight has one.

    Args:
        model: a module, TorchScript, or an exported program.
    """
    weights = model.state_dict
    values = weights.values() if isinstance(weights, dict) else weights().values()
    dtypes = {str(value.dtype) for value in values if isinstance(value, torch.Tensor)}
    return next((name for name in _HALVES if f"torch.{name}" in dtypes), None)


@contextmanager
def disable_tf32() -> Iterator[None]:
    """Disable TF32 in PyTorch inside the block."""
    if not torch.cuda.is_initialized():
        yield
        return
    switches = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = False
        yield
    finally:
        for switch, allowed in zip(switches, before):
            switch.allow_tf32 = allowed


def _operations(model: Any) -> Iterable[str]:
    """Yield the names of modules and operations, in lower case."""
    nodes = getattr(getattr(model, "graph", None), "nodes", ())
    if callable(nodes):  # TorchScript has a method `nodes`.
        yield from (str(node.kind()).lower() for node in nodes())
    else:  # An exported program has an attribute `nodes`.
        yield from (str(node.target).lower() for node in nodes)
    if isinstance(model, torch.nn.Module):
        for module in model.modules():
            yield str(getattr(module, "original_name", type(module).__name__)).lower()
