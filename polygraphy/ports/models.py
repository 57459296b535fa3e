"""Ports for reading, writing and checking models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from polygraphy.binding import port

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from polygraphy.domain.checks.capability import Compatibility, Placements, Problem
    from polygraphy.domain.checks.lint import Findings, LintReport, TrialValue
    from polygraphy.domain.model import Detail, ModelSource
    from polygraphy.domain.model.description import TensorUse
    from polygraphy.domain.model.difference import Difference, Edit, Outline
    from polygraphy.domain.model.sparsity import WeightSparsity
    from polygraphy.domain.quantization.listing import QuantizedTensor


@port
def first_violation(model: Any) -> str:
    """Return the first violation of the ONNX specification in an ``onnx.ModelProto``, with its
    node; empty if it is valid."""


@port
def outline_of(model: Any) -> Outline:
    """Return the parts of a model, which is not changed.

    Raises:
        ModelError: a name in it is no text.
    """


@port
def describe_file(source: ModelSource, detail: Detail) -> Any:
    """Return a description of a model file; the key is its kind:
    ``onnx``, ``tensorflow`` or ``tensorrt``.

    Returns:
        A frozen attrs object: of ONNX models a `polygraphy.domain.model.Model`.

    Raises:
        FileError: the file, or one that it names, is missing or cannot be read.
        ModelError: the file is no model of this kind.
    """


@port
def find_quantized_tensors(path: str) -> list[QuantizedTensor]:
    """Return the quantized tensors in an ONNX file;
    none if it is not quantized, or cannot be read."""


class ModelReports(Protocol):
    """Shows reports on models."""

    def loading(self, path: str) -> None:
        """Report that a model is about to be read."""

    def model(self, description: Any, detail: Detail) -> None:
        """Show the contents of a model."""

    def statistics(self, statistics: Any) -> None:
        """Show the sizes and costs of a model."""

    def show_unbounded_tensors(self, names: Sequence[str]) -> None:
        """Show the tensors whose elements determine the sizes of other tensors without a limit."""

    def show_quantization(self, tensors: Sequence[QuantizedTensor], *, is_complete: bool) -> None:
        """Show how a model is quantized: in one line, or tensor by tensor."""

    def placements(self, placements: Placements, *, is_complete: bool) -> None:
        """Show the execution provider of each node.
        Of all nodes, or of those that run elsewhere."""

    def tensors(self, uses: Sequence[TensorUse]) -> None:
        """Show the tensors and their producers."""

    def sparsity(self, weights: Sequence[WeightSparsity]) -> None:
        """Show which eligible weights are sparse."""

    def differences(self, differences: Sequence[Difference]) -> None:
        """Show the differences between two models; nothing if there are none."""

    def outline(self, title: str, outline: Outline) -> None:
        """Show an outline of a model under a title, before or after an edit."""

    def edit(self, edit: Edit) -> None:
        """Show which parts an edit removed and added."""

    def lint(self, report: LintReport) -> None:
        """Show the problems of a model."""

    def compatibility(self, result: Compatibility) -> None:
        """Show whether a backend can run a model."""

    def page_saved(self, path: str) -> None:
        """Report that a page about a model was written."""

    def page_served(self, address: str) -> None:
        """Report the address at which a page about a model can be opened."""


@port
def save_model(model: Any, path: str) -> None:
    """Write an ``onnx.ModelProto`` of any size to `path`, and its weights beside it.

    Raises:
        FileError: a file cannot be written.
    """


LayerSketch = tuple[str, str, dict[str, Any], list[str], list[str]]


"""A node to draw: its name, operator type, attributes, and the names of its inputs and outputs."""


@port
def load_onnx(path: str, *, maps_weights: bool = False) -> Any:
    """Return the `onnx.ModelProto` in a file, with its weights.

    Args:
        path: the file.
        maps_weights: whether large weights stay in their files until their elements are needed.

    Raises:
        FileError: the file is missing.
        ModelError: it is no ONNX model.
    """


@port
def weight_files(path: str) -> list[str]:
    """Return the paths of the files beside a model that hold its weights.
    It raises as `load_onnx` does.
    """


@port
def parse_onnx(content: bytes) -> Any:
    """Return the `onnx.ModelProto` in serialized bytes; raise ModelError if they are invalid."""


@port
def sketch_onnx(
    name: str,
    layers: list[LayerSketch],
    inputs: dict[str, tuple[Any, tuple[int, ...]]],
    outputs: dict[str, tuple[Any, tuple[int, ...]]],
) -> Any:
    """Return an `onnx.ModelProto` for viewing, not for running.

    Args:
        name: the name of the graph.
        layers: its nodes, in order.
        inputs: data type (a `DataTypeEntry`) and shape of each input; -1 for a dynamic
            dimension.
        outputs: the same of each output.
    """


@port
def read_tensor(path: str | Path) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name of a tensor, which may be empty, and its elements, from a file.

    Raises:
        FileError: the file is missing, damaged, or holds something else.
    """


class ModelTrial(Protocol):
    """Loads small models and runs them once. Backends are bound with their name as the key; without
    a key, it is the backend that lint uses.
    """

    def with_settings(
        self,
        providers: Sequence[Any] | None,
        graph_optimization_level: str | None,
        provider_libraries: Mapping[str, str] | None = None,
    ) -> ModelTrial:
        """Return a trial that uses these settings; the same one if the backend has no settings."""

    def run(
        self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]
    ) -> Mapping[str, TrialValue]:
        """Return the outputs of a model, which is loaded and run.

        Args:
            model: a serialized model, or the path of one.
            feed: arrays, or what an earlier call gave.
            outputs: the outputs to compute.

        Raises:
            MissingDependencyError: the backend is not installed.
            UsageError: how models are to be run does not exist here.
            BackendError: the model cannot be loaded, or fails; the message is what the backend
                says about it, in one line.
            InconclusiveError: it did not end in time.
        """


Lint = Callable[[Union[Mapping[str, Any], None], Union[ModelTrial, None]], "Findings"]
"""Finds everything that is wrong with the nodes of a model in one go. It is given input data to try
it with, None where there are none, and who tries the nodes, None to only look at them. FileError
where a file cannot be read.
"""


@port
def open_to_lint(source: ModelSource) -> Lint:
    """Return a model that is read and prepared for checks of its nodes.

    Raises:
        FileError: a file is missing or cannot be read.
        ModelError: the file is no model of this kind.
    """


@port
def support_problems(model: Any) -> list[Problem]:
    """Return the reasons why a backend does not support an ``onnx.ModelProto``;
    empty if it does. The key is the name of the backend; TensorRT has none. Nothing is built or
    changed.

    Raises:
        BackendError: the backend is missing, or cannot be asked.
    """


@port
def place_nodes(
    model: Any, providers: Sequence[Any], provider_libraries: Mapping[str, str] | None = None
) -> Placements:
    """Return the ONNX Runtime execution provider of each node of an ``onnx.ModelProto``,
    which is not changed, and why nodes run elsewhere if that is known.

    Args:
        model: the model.
        providers: execution providers in order of priority; see `SessionFromOnnx`.
        provider_libraries: plugins with further providers.

    Raises:
        BackendError: ONNX Runtime cannot load the model.
        UnknownNameError: a provider does not exist in this installation.
        UnavailableError: a provider does not start.
    """


@port
def group_by_support(model: Any) -> list[tuple[list[int], bool]]:
    """Return groups of node positions, each with whether TensorRT is known to support all of it.
    It may support parts of the others. Nodes in no group are not supported.
    """
