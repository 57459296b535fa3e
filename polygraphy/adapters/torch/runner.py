"""Runs models in PyTorch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.torch.arrays import array_from, tensor_from
from polygraphy.adapters.torch.precision import compute_precision, stored_precision
from polygraphy.adapters.torch.program import (
    Program,
    get_model,
    is_model,
    program_of,
    release_cached_memory,
    translate_errors,
)
from polygraphy.domain.catalog.compute import ComputePrecision
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.tensors.facts import Facts, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER

torch = mod.lazy_import("torch>=2.2")

_now = time.perf_counter


_is_inherited = False
"""Whether this process was forked from one that had loaded PyTorch."""


def _note_fork() -> None:
    """Record, in a forked process, whether the parent had imported PyTorch."""
    global _is_inherited  # noqa: PLW0603
    _is_inherited = "torch" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _use_one_thread_after_a_fork() -> None:
    """Limit PyTorch to one thread in a forked process, where it would wait forever for the parent's
    threads."""
    if _is_inherited and torch.get_num_threads() > 1:
        G_LOGGER.verbose(
            "PyTorch uses one thread, because it was loaded before this process was forked."
        )
        torch.set_num_threads(1)


@mod.export()
class PytRunner(BaseRunner):
    """Runs a PyTorch model, on the CPU or a GPU.

    If all inputs are NumPy arrays, outputs are NumPy arrays. If one input is a tensor, outputs are
    tensors on the device of the model.
    """

    outputs_are_fresh = True
    leaves_inputs_alone = True

    def __init__(
        self,
        model: Deferred[Any],
        input_metadata: TensorMetadata | None = None,
        output_names: Sequence[str] | str | None = None,
        name: str | None = None,
        compiled: bool = False,
        device: str | None = None,
    ) -> None:
        """Create a runner of a model, or of the model that a loader returns on activation.

        Args:
            model: a `torch.nn.Module`, TorchScript or a `torch.export.ExportedProgram`; or a
                function that returns one when the runner is activated, or a tuple of one and the
                next argument, or the next two.
            input_metadata: the inputs, in the order of the arguments of the model. Programs declare
                them (default: for modules, the parameters of `forward`, as float32).
            output_names: names of the outputs, in order (default: those of the program or of the
                dictionary that a model returns, else ``output_0``, ``output_1``, ...).
                `constants.MARK_ALL` for every tensor that a program computes.
            name: see `BaseRunner`.
            compiled: whether `torch.compile` compiles the model, in the first inference of each
                shape.
            device: the device of the model, such as ``cuda`` or ``cuda:1`` (default: its current
                one). A module is moved to this device. A module that you pass directly is moved
                back at the end.
        """
        super().__init__(name=name, prefix="pyt-runner")
        self._model = model
        self._input_metadata = input_metadata
        self._output_names = output_names
        self._compiled = compiled
        self._device = device
        self._program: Program | None = None
        self._former_place: Any = None
        self._inputs = TensorMetadata()
        self._takes_optional = False
        self._names: Sequence[str] | str | None = None
        self._place: Any = None
        self._lowered: ComputePrecision | None = None
        self._stored: str | None = None

    def activate_impl(self) -> None:
        """Load the model, move it to the device, and switch it to inference."""
        _use_one_thread_after_a_fork()
        loaded = get_model(self._model)
        model, metadata, names = _model_parts(loaded)
        program = program_of(model)
        inputs = self._input_metadata or metadata or program.inputs()
        if inputs is None:
            raise UsageError(
                f"{self.name}: the PyTorch model does not declare its inputs.",
                hint="Pass input_metadata, or return a tuple of the model and its TensorMetadata.",
            )
        with translate_errors("start"):
            if self._device is not None and is_model(self._model):
                self._former_place = program.start(None, compiled=False)
                program.stop()
            self._place = program.start(self._device, self._compiled)
        self._lowered = compute_precision(model, self._place)
        self._stored = stored_precision(model)
        self._inputs = inputs
        self._takes_optional = self._input_metadata is None and metadata is None
        self._names = self._output_names or names
        self._program = program

    def deactivate_impl(self) -> None:
        """Restore the mode and device of the model, release it, and free memory of the device."""
        if self._program is not None:
            self._program.stop()
            if self._former_place is not None and self._place.type != "meta":
                # Tensors on the device "meta" have no values.
                self._program.move(self._former_place)
        self._program = self._former_place = None
        release_cached_memory(self._place)

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return the metadata of the inputs."""
        return self._inputs

    def accept_inputs(self, names: Collection[str]) -> None:
        """Make optional parameters of `forward` with these names inputs; only while active."""
        assert self._program is not None
        if self._takes_optional:
            self._program.accept(names)
            self._inputs = self._program.inputs() or self._inputs
            self._metadata = None

    @property
    def uses_device(self) -> bool:
        """Return whether the model runs on a device."""
        return self._place is not None and self._place.type not in ("cpu", "meta")

    def get_model_facts(self) -> Facts:
        """Return the facts about the model: whether all tensors of a program are outputs, and
        whether it computes in half precision or TF32.
        """
        is_program = self._names == constants.MARK_ALL
        if self._stored is not None:
            return ModelFacts({"": self._stored}, is_program=is_program, lowered=self._lowered)
        if self._lowered is None:
            return ModelFacts(is_program=is_program)
        return ModelFacts({"": self._lowered.dtype}, is_program=is_program, lowered=self._lowered)

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the outputs of one run; the measured time excludes copies between NumPy, host and
        GPU.

        Returns:
            One tensor per output if one of the inputs is a tensor, else one NumPy array per output.
            They belong to the caller.
        """
        assert self._program is not None
        keeps_tensors = any(isinstance(data, torch.Tensor) for data in feed_dict.values())
        with translate_errors("run"), torch.no_grad():
            tensors = [tensor_from(name, feed_dict[name], self._place) for name in self._inputs]
            self._synchronize()
            start = _now()
            if self._names == constants.MARK_ALL:
                result: Any = self._program.run_all(tensors)
            else:
                result = self._program.run(tensors)
            self._synchronize()
            self.inference_time = _now() - start
            outputs = self._name_outputs(result)
            convert = torch.clone if keeps_tensors else array_from
            return {name: convert(tensor) for name, tensor in outputs.items()}

    def _synchronize(self) -> None:
        """Wait for the GPU, if the model is on one."""
        if self._place.type == "cuda":
            torch.cuda.synchronize(self._place)

    def _name_outputs(self, result: Any) -> dict[str, Any]:
        """Return the tensors that the model returned, by name."""
        if isinstance(result, Mapping):
            return {str(name): value for name, value in tensors_in(result)}
        assert self._program is not None
        values = [value for _, value in tensors_in(result)]
        names = self._names or self._program.output_names()
        if names is None:
            names = [f"output_{index}" for index in range(len(values))]
        if len(names) != len(values):
            raise BackendError(
                f"The PyTorch model returned {len(values)} tensors, but its outputs have"
                f" {len(names)} names: {list(names)}.",
                backend="torch",
            )
        return dict(zip(names, values))


def _model_parts(loaded: Any) -> tuple[Any, TensorMetadata | None, Sequence[str] | None]:
    """Return a loaded model with its inputs and output names, if it states them."""
    if not isinstance(loaded, tuple):
        return loaded, None, None
    model, metadata, names = (*loaded, None, None)[:3]
    return model, metadata, names


def tensors_in(result: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return the path of each tensor in the result of a model, and the tensor.

    A path through dictionaries and sequences is, for example, ``hidden.0``.
    """
    if isinstance(result, torch.Tensor):
        return [(name, result)]
    if isinstance(result, Mapping):
        parts = list(result.items())
    elif isinstance(result, (tuple, list)):
        parts = list(enumerate(result))
    elif isinstance(layers := getattr(result, "layers", None), list):
        # The result is a cache of the transformers package.
        names = ("keys", "values", "cumulative_length")
        entries = [{name: getattr(layer, name, None) for name in names} for layer in layers]
        parts = [("layers", entries)]
    else:
        return []  # Other values, such as None or numbers, are not outputs.
    return [
        tensor
        for key, value in parts
        for tensor in tensors_in(value, f"{name}.{key}" if name else str(key))
    ]
