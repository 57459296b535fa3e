"""What is said about data and calls that an engine does not take."""

from __future__ import annotations

from polygraphy.adapters.tensorrt.runtime.tensors import IoTensor
from polygraphy.domain.errors import BackendError, InputError


def wrong_dtype(tensor: IoTensor, found: object) -> InputError:
    """Return the error for data of another data type."""
    return InputError(
        f"Input {tensor.name!r} must have data type {tensor.entry}, but the data have the"
        f" unexpected dtype {found}."
    )


def check_shape(tensor: IoTensor, shape: tuple[int, ...], profile: int) -> None:
    """Do nothing if an input may have a shape.

    Raises:
        InputError: it may not; the message says what the optimisation profile takes, and which
            other profile would take it.
    """
    if tensor.takes(shape, profile):
        return
    if not tensor.ranges or len(shape) != len(tensor.shape):
        raise InputError(
            f"Shape mismatch: input {tensor.name!r} must have shape {tensor.shape}, but the data"
            f" have {shape}."
        )
    within = tensor.ranges[profile]
    others = [index for index in range(len(tensor.ranges)) if tensor.takes(shape, index)]
    raise InputError(
        f"Input {tensor.name!r} cannot have shape {shape}: optimisation profile {profile} of the"
        f" engine takes {within.min} to {within.max}.",
        hint=(
            f"Profile {others[0]} takes it: choose that one."
            if others
            else "Build the engine with a wider profile, or feed other data."
        ),
    )


def refused(what: str, reason: object, *, hint: str = "") -> BackendError:
    """Return the error for a call that TensorRT answers with no; `reason` is what it logged."""
    why = f": {reason}" if str(reason) else "; it gave no reason."
    return BackendError(f"TensorRT refuses {what}{why}", backend="tensorrt", hint=hint)
