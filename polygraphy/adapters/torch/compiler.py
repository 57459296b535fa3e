"""PyTorch's compiler, which exported programs need, too, beside TensorFlow."""

from __future__ import annotations

import sys

from polygraphy import mod
from polygraphy.domain.errors import BackendError

triton = mod.lazy_import("triton", log=False)


def check_compiler() -> None:
    """Refuse to load the compiler where that would end the process.

    Triton and TensorFlow each bring an LLVM of their own, and that of Triton aborts when it comes
    second. The other way round is no problem.

    Raises:
        BackendError: TensorFlow is loaded, and Triton is not.
    """
    if "tensorflow" in sys.modules and "triton" not in sys.modules and triton.is_installed():
        raise BackendError(
            "PyTorch cannot load its compiler after TensorFlow in the same process.",
            backend="torch",
            hint="Let PyTorch come first (--torch before --tf), or run each runner in a process of"
            " its own (--use-subprocess).",
        )
