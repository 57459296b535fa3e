"""What PyTorch and models written in it raise, its name here, and what is refused before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from polygraphy import mod
from polygraphy.adapters.os.user_frame import user_frame
from polygraphy.domain.errors import BackendError, InputError, ModelError, PolygraphyException


@contextmanager
def translated_errors(doing: str, model: object = "") -> Iterator[None]:
    """Turn whatever is raised inside the block into one of our errors: a model is Python code, and
    may raise anything. The error names the line of it.

    Args:
        doing: what was being done: ``load``, ``compile``, ``run``.
        model: the file, where there is one.

    Raises:
        ModelError: a file is not the model that it should be.
        InputError: the model does not take these inputs.
        BackendError: anything else.
    """
    try:
        yield
    except (PolygraphyException, MemoryError):
        raise
    except Exception as error:
        kind = type(error).__name__
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        place = user_frame(error)
        said = f"{kind}: {text.rstrip('.')}{place}." if text else f"{kind}{place}."
        if doing == "load":
            raise ModelError(
                f"PyTorch cannot load {model or 'the model'}: {said}",
                path=model or None,
                hint="Files of torch.export.save (.pt2) and torch.jit.save (.pt) can be loaded.",
            ) from error
        if doing == "run" and isinstance(error, TypeError):
            raise InputError(f"The PyTorch model does not take these inputs: {said}") from error
        hint = "Out of memory: use a smaller batch." if kind == "OutOfMemoryError" else ""
        raise BackendError(
            f"PyTorch could not {doing} the model: {said}", backend="torch", hint=hint
        ) from error


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
