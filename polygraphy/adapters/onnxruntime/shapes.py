"""ONNX Runtime's symbolic shape inference, which keeps the names of dimensions and computes with
them.
"""

from __future__ import annotations

from typing import Any

from polygraphy import mod
from polygraphy.domain.errors import BackendError, MissingDependencyError, PolygraphyException

onnxrt = mod.lazy_import("onnxruntime>=1.10.0")
sympy = mod.lazy_import("sympy")


def infer_symbolic_shapes(model: Any) -> Any:
    """Return a model with more shapes; MissingDependencyError without `sympy` or ONNX Runtime,
    BackendError when the tool gives up.
    """
    for module, name in ((onnxrt, "onnxruntime"), (sympy, "sympy")):
        if not module.is_installed():
            install = sympy.install_command()  # The other, too.
            raise MissingDependencyError(
                f"{name} is not installed; symbolic shape inference takes it. Install it with:"
                f" {install}",
                module=name,
                install=install,
            )
    from onnxruntime.tools import symbolic_shape_infer as tool

    if not isinstance(tool.onnx, _WithoutFiles):
        tool.onnx = _WithoutFiles(tool.onnx)
    try:
        made = tool.SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    except PolygraphyException:
        raise
    except Exception as error:  # It raises bare exceptions, assertions and key errors alike.
        text = " ".join(str(error).split())
        raise BackendError(
            f"ONNX Runtime's symbolic shape inference gave up: {type(error).__name__}: {text}.",
            backend="onnxruntime",
        ) from error
    if made is None:  # It has said why in a log that is not shown.
        raise BackendError(
            "ONNX Runtime's symbolic shape inference takes models of opset 7 and above.",
            backend="onnxruntime",
        )
    return made


class _WithoutFiles:
    """The onnx package as the tool sees it: when it gives up, it would leave the model behind in
    the current folder.
    """

    def __init__(self, package: Any) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        return getattr(self._package, name)

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """Save nothing."""
