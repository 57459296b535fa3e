"""The one place where error codes of CUDA become errors of ours.

Every function of cuda-python answers with a tuple: the code, then the values.
"""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.cuda.module import cudart
from polygraphy.domain.errors import BackendError

_NO_DRIVER = "Install the NVIDIA driver, or run this on a machine that has a GPU."
_BROKEN_CONTEXT = (
    "The GPU is unusable for the rest of this process: an earlier kernel or copy failed. "
    "Set CUDA_LAUNCH_BLOCKING=1 to find out which."
)
_HINTS = {
    "cudaErrorInsufficientDriver": "The driver is missing or older than this CUDA runtime. "
    + _NO_DRIVER,
    "cudaErrorNoDevice": "No GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES.",
    "cudaErrorInvalidDevice": "See nvidia-smi and CUDA_VISIBLE_DEVICES for the GPUs that exist.",
    "cudaErrorStubLibrary": "libcuda is a stub. " + _NO_DRIVER,
    "cudaErrorSystemDriverMismatch": "Restart the machine, or reinstall the driver.",
    "cudaErrorNoKernelImageForDevice": "It was built for another GPU: build it for this one.",
    "cudaErrorIllegalAddress": _BROKEN_CONTEXT,
    "cudaErrorLaunchFailure": _BROKEN_CONTEXT,
    "cudaErrorMisalignedAddress": _BROKEN_CONTEXT,
    "cudaErrorMemoryAllocation": "Use a smaller batch, or end other programs that use this GPU.",
}


def checked(result: tuple[Any, ...], doing: str) -> None:
    """Raise a BackendError if a call failed; `doing` says what it was for: ``free memory``."""
    if result[0]:
        raise failure(result[0], doing)


def value_of(result: tuple[Any, ...], doing: str) -> Any:
    """Return the value of a call that has one; BackendError if the call failed."""
    if result[0]:
        raise failure(result[0], doing)
    return result[1]


def failure(code: Any, doing: str, found: str = "") -> BackendError:
    """Return the error for a code; `found` is what else is known, as a sentence."""
    name, text = describe(code)
    # Some errors stay pending: reading them once keeps them from being blamed on the next call.
    cudart().cudaGetLastError()
    message = f"CUDA could not {doing}: {text} ({name}, {int(code)})."
    return BackendError(
        f"{message} {found}" if found else message, backend="cuda", hint=_HINTS.get(name, "")
    )


def describe(code: Any) -> tuple[str, str]:
    """Return CUDA's name of an error code and CUDA's words for it."""
    module = cudart()
    try:
        code = module.cudaError_t(code)
        name = _text(module.cudaGetErrorName(code)[1])
        return name, _text(module.cudaGetErrorString(code)[1])
    except (ValueError, TypeError):
        return "unknown", "an error that this version of cuda-python does not know"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
