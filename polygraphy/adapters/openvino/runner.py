"""Runs models in OpenVINO."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.arrays.foreign import as_torch, has_torch, host_copy
from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.openvino.compiled import PROCESS, read_facts
from polygraphy.adapters.openvino.datatype import array_of, contiguous_array, data_type, tensor_of
from polygraphy.adapters.openvino.errors import translate_errors
from polygraphy.adapters.openvino.profiling import CompiledModelProfiler
from polygraphy.adapters.os.signals import cancellable
from polygraphy.domain.data.loading import check_has_outputs
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.last_words import last_words
from polygraphy.ports.running import NodeProfiler

if TYPE_CHECKING:
    from openvino import CompiledModel

_LONG = 0.5
"""Seconds of an inference that are too long to wait for after ctrl-C."""
_CRASHED = (
    "[!] The process ended while OpenVINO {} the model: OpenVINO crashed, or the process was"
    " killed. To continue with other backends: --use-subprocess."
)
_now = time.perf_counter


@mod.export()
class OpenvinoRunner(BaseRunner):
    """Runs a model compiled by OpenVINO.

    Inputs are arrays of NumPy, PyTorch, or of any library with DLPack; outputs are NumPy arrays, or
    PyTorch tensors if an input is one.

    Attributes:
        is_watched: whether a line is written to standard error if OpenVINO ends the process.
    """

    outputs_are_fresh = True
    leaves_inputs_alone = True

    def __init__(self, compiled: Deferred[CompiledModel], name: str | None = None) -> None:
        """Create a runner of a compiled model, or of the model that a loader returns on
        activation."""
        super().__init__(name=name, prefix="openvino-runner")
        self.is_watched = True
        self._compiled = compiled
        self.compiled: CompiledModel | None = None
        self._request: Any = None
        self._inputs: dict[str, tuple[int, DataTypeEntry]] = {}
        self._outputs: dict[str, tuple[int, DataTypeEntry]] = {}
        self._may_take_long = True

    def activate_impl(self) -> None:
        """Compile the model, and create an inference request."""
        given_compiled: Any = self._compiled  # A compiled model is callable, like a loader.
        with self._last_words("compiled"):
            compiled = (
                given_compiled
                if hasattr(given_compiled, "create_infer_request")
                else evaluate(given_compiled)
            )
        check_has_outputs(compiled.outputs)
        facts = read_facts(compiled)
        self._inputs = _describe_ports(facts.inputs, compiled.inputs)
        self._outputs = _describe_ports(facts.outputs, compiled.outputs)
        with translate_errors("run"):
            self._request = compiled.create_infer_request()
        self.compiled = compiled
        self._may_take_long = True

    def _last_words(self, doing: str) -> AbstractContextManager[None]:
        """Return a context that prints a line if OpenVINO ends the process."""
        return last_words(_CRASHED.format(doing)) if self.is_watched else nullcontext()

    def open_profiler(self) -> NodeProfiler:
        """Return a profiler of the model, compiled again with performance counts;
        only while active.

        Raises:
            BackendError: the model was compiled elsewhere.
        """
        return CompiledModelProfiler(self._compiled, OpenvinoRunner)

    def deactivate_impl(self) -> None:
        """Release the compiled model."""
        self.compiled = None
        self._request = None

    def performance_counts(self) -> list[Any]:
        """Return the performance counts of the last inference.
        The model must have been compiled with them."""
        return list(self._request.profiling_info)

    def get_model_facts(self) -> Facts:
        """Return the facts about the model, and the data types in which OpenVINO computes it if
        `CompiledModelFromOnnx` compiled it.
        """
        assert self.compiled is not None
        return read_facts(self.compiled).facts

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return names, data types and shapes of the inputs.
        OpenVINO loses the names of dynamic dimensions.
        """
        assert self.compiled is not None
        metadata = TensorMetadata()
        for name, (index, dtype) in self._inputs.items():
            shape = self.compiled.inputs[index].partial_shape
            dimensions = None if shape.rank.is_dynamic else [_dimension(value) for value in shape]
            metadata.add(name, dtype, dimensions)
        return metadata

    def infer_impl(self, feed_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of one run.

        Returns:
            One array per output; they belong to the caller.

        Raises:
            BackendError: OpenVINO cannot compute it.
            UsageError: this process was forked from the one in which the runner was activated.
        """
        PROCESS.check()
        watch = self._last_words("ran") if self._may_take_long else nullcontext()
        with watch, translate_errors("run"):
            # Tensors share the memory of these arrays without keeping them, so keep them until the
            # run.
            contiguouses = [
                contiguous_array(host_copy(name, feed_dict[name])) for name in self._inputs
            ]
            for array, (index, dtype) in zip(contiguouses, self._inputs.values()):
                self._request.set_input_tensor(index, tensor_of(array, dtype))
            start = _now()
            self._request.start_async()
            if self._may_take_long:
                cancellable(self._request.wait, self._request.cancel)
            else:
                self._request.wait()
            self.inference_time = _now() - start
            self._may_take_long = self.inference_time > _LONG
            outputs = {
                name: array_of(self._request.get_output_tensor(index), dtype)
                for name, (index, dtype) in self._outputs.items()
            }
        is_plain = all(isinstance(array, np.ndarray) for array in feed_dict.values())
        return outputs if is_plain or not has_torch(feed_dict.values()) else as_torch(outputs)


def _describe_ports(
    names: Sequence[str], ports: Sequence[Any]
) -> dict[str, tuple[int, DataTypeEntry]]:
    """Return positions and data types by name."""
    return {
        name: (index, data_type(name, ports[index].element_type))
        for index, name in enumerate(names)
    }


def _dimension(dimension: Any) -> int | None:
    """Return the length of a dimension; None if it is dynamic."""
    return None if dimension.is_dynamic else dimension.get_length()
