"""What PyTorch and models written in it raise, and what it is called here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
