"""What finds out why outputs are wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from attrs import Factory, frozen

from polygraphy.binding import port

if TYPE_CHECKING:
    import numpy as np

    from polygraphy.domain.catalog.compute import ComputePrecision
    from polygraphy.domain.checks.operator_call import InvalidNode
    from polygraphy.domain.diagnosis.culprit import Attempt, DiagnosisResult
    from polygraphy.domain.diagnosis.failure import Failure
    from polygraphy.domain.diagnosis.headroom import NodeLoss
    from polygraphy.domain.diagnosis.quantising import QuantisedOperand
    from polygraphy.domain.diagnosis.regions import GraphNode
    from polygraphy.domain.diagnosis.two_models import Mending
    from polygraphy.domain.diagnosis.variants import Variant
    from polygraphy.domain.model import Graph, Model
    from polygraphy.domain.quantization.code_tensors import CodeTensor
    from polygraphy.domain.quantization.schemes import Scheme
    from polygraphy.domain.quantization.sites import FloatNode, Site
    from polygraphy.domain.tensors.datatype import DataTypeEntry
    from polygraphy.domain.tensors.facts import Facts
    from polygraphy.domain.tensors.metadata import TensorMetadata


Compute = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Runs a model that is loaded: from input data to outputs, both by name. BackendError where it
fails."""


class NarrowModel(Protocol):
    """A float32 model that a party computes which rounds at every operator, as hardware would.

    Attributes:
        inputs: names, data types and shapes of its inputs.
        passes: the names of the nodes that can compute in the narrower type, in order; one without
            a name goes by the first tensor that it computes.
        users: the nodes that read what a node makes, by its name.
    """

    inputs: TensorMetadata
    passes: Sequence[str]
    users: Mapping[str, Collection[str]]

    def facts(self) -> Facts:
        """Return what the model tells without being run."""

    def load(self, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return what computes the outputs, as that of a `SuspectedParty` does.

        Args:
            plain: whether all nodes stay in float32.
            without: the names of nodes that do.

        Raises:
            BackendError: the model cannot be run.
        """

    def rounded(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs with the digits of the narrower type, but without the ends of its
        range: what rounding alone does.

        Raises:
            BackendError: the model cannot be run.
        """

    def measure(
        self, feed: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray[Any, Any]], list[NodeLoss]]:
        """Return the outputs in float32, and what each node loses alone in the narrower type.

        Raises:
            BackendError: the model cannot be run.
        """


class NarrowModels(Protocol):
    """Opens models to see what a narrower type does to them."""

    def open(
        self, model: Any, dtype: DataTypeEntry, only: Collection[str] | None = None
    ) -> NarrowModel:
        """Look into a model.

        Args:
            model: an ``onnx.ModelProto``, or a loader that makes one; it stays as it is.
            dtype: the narrower type, such as `DataType.FLOAT16`.
            only: the names of the nodes that compute in it (default: all that can).

        Raises:
            ModelError: the model cannot be cast to that type.
        """

    def narrow_nodes(self, model: Any) -> tuple[DataTypeEntry, list[str]] | None:
        """Return the narrow type in which an ``onnx.ModelProto`` computes as it is, and the names
        of the nodes that do; None where none does.
        """

    def computed(self, model: Any) -> Compute | None:
        """Return what computes an ``onnx.ModelProto`` that is narrow as it is, with rounding at
        every operator; None where no node of it is.

        Raises:
            BackendError: the reference evaluator cannot run it.
        """

    def roughly(
        self, model: Any, dtype: str = "float32"
    ) -> Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
        """Return what computes a model twice or more often, each time when it is first asked for,
        with all that its nodes make moved: each element up or down by as much as rounding explains
        of one operator. In float16 or bfloat16, whether
        the model is narrow itself or not: once with the digits of the type, without end of its
        range, and once in float32; nothing where a node makes more of rounding than others, so
        that it is at fault where that shows.

        Args:
            model: an ``onnx.ModelProto``, its bytes or its path.
            dtype: the coarsest type in which it is computed.

        Raises:
            BackendError: the reference evaluator cannot run it.
        """

    def widen_model(self, model: Any, like: Any = None) -> Any:
        """Return an ``onnx.ModelProto`` as it would be in float32, with the same names.

        Args:
            model: an ``onnx.ModelProto``.
            like: a narrow model that was made of it: weights get the digits, but not the range, of
                its type; those of nodes that are not narrow in it stay.
        """


REFERENCE = "reference"
"""The key of the party that is asked where others differ."""
USUAL = "usual"
"""The key of the party in which models are run in the end."""


class SuspectedParty(Protocol):
    """A backend that may be at fault.

    Attributes:
        name: what it is called: its backend, unless the user chose a name.
        backend: its flag without the dashes.
        passes: the names of its rewrites that can be switched off one by one; none where it
            rewrites nothing, or does not say.
        rewrites: whether it may run another graph than it is given.
        levels: how much it rewrites can be one of these, from the least to the most.
        settings: how it runs models, for a program that needs nothing of this package: its
            ``module``, and arguments that are not the default; none where there can be no such
            program.
        options: its options on the command line, by the names of their rows.

    It may have three more: `survives_fork`, whether a forked process can use its library if this
    process has (default: True); `uses_device`, whether its library holds memory of a device
    (default: False); and a method `on_host` without arguments, which returns the same backend on
    the CPU, or None if it is that already (default: there is no such party).
    """

    name: str
    backend: str
    passes: Sequence[str]
    rewrites: bool
    levels: Sequence[str]
    settings: Mapping[str, Any]
    options: Mapping[str, Any]

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Load a model as a user would.

        Args:
            model: an ``onnx.ModelProto``, its path, or what returns one, which is then not held
                beside what is made of it.
            plain: whether nothing is rewritten, as far as that can be switched off.
            without: the names of rewrites that are switched off; see also `LoweringParty`.

        Raises:
            BackendError: it refuses the model.
        """

    def executed(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the graph that it really runs, as an ``onnx.ModelProto`` in which tensors keep
        their names; None where it does not show that.

        Args:
            model: an ``onnx.ModelProto``, or its path.
            without: the names of rewrites that are switched off.
            level: how much is rewritten (default: as a user would have it).

        Raises:
            BackendError: it refuses the model.
        """

    def remedy(self, *, plain: bool, without: Collection[str]) -> Mapping[str, Any]:
        """Return the options that run a model as `load` did with these arguments."""


class LoweringParty(SuspectedParty, Protocol):
    """A backend that may compute in half precision. Its passes are the nodes of a model then: those
    that it is loaded without compute in float32, and one without a name goes by the first tensor
    that it computes.

    Attributes:
        lowers_to: ``tf32``, ``fp16`` or ``bf16``; None where it computes in float32. With ``tf32``
            it has no passes of its own: float32 is one option for all nodes.
        lowered: with ``tf32``, which operators that applies to; else None.
    """

    lowers_to: str | None
    lowered: ComputePrecision | None

    def in_float32(self) -> SuspectedParty:
        """Return the same backend, computing in float32."""


@frozen
class Exporter:
    """How a model was exported from a program.

    Attributes:
        dynamo: whether by the exporter that is based on `torch.export`.
        opset: the version of the standard operators; None for the default.
        sizes: by input, the dimensions that may vary, with their names.
        outputs: the names of the outputs.
    """

    dynamo: bool
    opset: int | None = None
    sizes: Mapping[str, Mapping[int, str]] = Factory(dict)
    outputs: Sequence[str] = ()


class OpenedProgram(Protocol):
    """A program of a framework from which models are exported, opened for data of one shape.

    Attributes:
        nodes: its operations in order, each called as the tensor that it makes; none where it does
            not show what is inside.
        weights: by name what operations read that no operation makes, and is no input.
        release: the version of the exporter, as models record it; empty where that is not known.
        unsteady: why no two runs of it are the same, or it computes as in training, a sentence;
            empty where that is not so.
        notes: what else is to be known of it, in sentences.
        open_dimensions: by input, the dimensions that it takes in any size, with their names.
    """

    nodes: Sequence[GraphNode]
    weights: Mapping[str, Any]
    release: str
    unsteady: str
    notes: Sequence[str]
    open_dimensions: Mapping[str, Mapping[int, str]]

    def run(
        self, feed: Mapping[str, Any], keep: Callable[[str, Any], None] | None = None
    ) -> list[tuple[str, Any]]:
        """Return the outputs in order, each with its name.

        Args:
            feed: arrays by the names of the model.
            keep: takes every tensor that an operation makes, as it is made, with its name.

        Raises:
            BackendError: it cannot be run.
        """

    def alone(self, name: str, held: Mapping[str, Any], feed: Mapping[str, Any]) -> Any:
        """Return what the operation that makes a tensor makes of given values, in float64; None
        where it cannot be computed so.

        Args:
            name: the tensor.
            held: what `run` kept.
            feed: the data, by the names of the model.
        """

    def condition_of(self, name: str) -> str:
        """Return which Python `if` decides whether the operation that makes a tensor is done at
        all, in words; empty where none does.
        """

    def exports(self) -> Iterator[tuple[str, str, Callable[[Mapping[str, Any]], Any]]]:
        """Yield other ways to export the program: in words, as a command line (empty where it has
        no file), and what makes an ``onnx.ModelProto`` so, of the data. What makes it may raise
        anything.
        """

    def export_again(self, feed: Mapping[str, Any], exporter: Exporter) -> tuple[Any, str]:
        """Export the program as a model was exported.

        Args:
            feed: the example, by the names of the model.
            exporter: how.

        Returns:
            An ``onnx.ModelProto``, and the command line that exports it; empty where there is none.

        Raises:
            Exception: what an exporter raises, which may be anything.
        """


class SourceProgram(Protocol):
    """A program of a framework from which a model was exported.

    Attributes:
        name: its flag without the dashes.

    It may have `uses_device`, whether it runs on a device (default: False); if it does, `close`
    releases memory of that.
    """

    name: str

    def open(self, feed: Mapping[str, Any]) -> OpenedProgram:
        """Open it for data.

        Args:
            feed: the data of a model that was exported from it, by name and in order.

        Raises:
            InputError: it takes other inputs.
            ModelError: it cannot be loaded.
        """


class QuantizedModel(Protocol):
    """A quantized model whose sites can be switched off one by one.

    Attributes:
        sites: where it is quantized.
        nodes: what computes, as before it was quantized.
        producer: which quantizer made it: ``static``, ``dynamic`` or ``nbits`` of ONNX Runtime,
            ``nncf``, ``modelopt``, ``olive``, ``genai``; empty if it is not known.
    """

    sites: Sequence[Site]
    nodes: Sequence[FloatNode]
    producer: str

    @property
    def between(self) -> Mapping[int, tuple[int, ...]]:
        """Weights that a backend may quantize again, with the first sites around their nodes."""

    def requantized_weights(self, on: Collection[int]) -> list[int]:
        """Return the weights that are off, and that a backend may quantize again."""

    def add_switches(self, *, requantizes: bool = False) -> Any:
        """Return an ``onnx.ModelProto`` with one more input, the last: which sites are on.

        Args:
            requantizes: whether a weight that is off is quantized again by the backend, if the
                tensors around its node are quantized.
        """

    def float_at_sites(self, off: Collection[int]) -> Any:
        """Return the model with some sites in floating point."""

    def marked(self) -> Any:
        """Return the model in floating point, with the activations of its sites as outputs."""

    def source(self, site: Site) -> str:
        """Return the tensor of an activation, which may be quantized several times."""

    def repaired(self, schemes: Mapping[int, Scheme | None]) -> QuantizedModel:
        """Return the model with other parameters at some sites; with None, a bias gets those that
        follow from its operands.
        """


class CodeTensors(Protocol):
    """The tensors of codes that nodes of a quantized model compute.

    Attributes:
        tensors: these, in the order of their nodes.
    """

    tensors: Sequence[CodeTensor]

    def marked(self) -> Any:
        """Return an ``onnx.ModelProto`` with all tensors of codes as outputs."""

    def split(self, codes: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return an ``onnx.ModelProto`` in which nodes read given codes, and these as inputs."""

    def split_into_pairs(self, codes: Mapping[str, Any]) -> Any:
        """Return the same with Q/DQ pairs instead of operators on codes."""


@port
def find_code_tensors(model: Any) -> CodeTensors:
    """Return the tensors of codes in an ``onnx.ModelProto``, which stays as it is."""


@port
def open_quantized(model: Any, references: Sequence[Any]) -> QuantizedModel:
    """Return the sites of a quantized ``onnx.ModelProto``.

    Args:
        model: the model; it stays as it is.
        references: the model that it was made of, and other forms of that, for its weights.
    """


@port
def quantize_again(
    producer: str, reference: Any, sites: Sequence[Site], without: Sequence[str]
) -> Any | None:
    """Return an ``onnx.ModelProto`` that its quantizer makes with the same parameters; None if the
    quantizer is not installed, not known, or refuses.

    Args:
        producer: which quantizer, as in `QuantizedModel`.
        reference: the model in floating point; it stays as it is.
        sites: the parameters.
        without: the nodes that stay in floating point.
    """


class DiagnosisReports(Protocol):
    """Shows how a diagnosis goes."""

    def attempted(self, attempt: Attempt) -> None:
        """A step was done."""

    def concluded(self, result: DiagnosisResult) -> None:
        """All steps were done."""

    def handed_over(self, folder: str, said: str) -> None:
        """A part of the model that shows the fault was saved."""

    def written_up(self, text: str) -> None:
        """The text of a bug report is to be shown."""


class OtherEnvironment(Protocol):
    """A Python environment with a backend of its own.

    Attributes:
        path: where it is, as it was given.
        version: of the backend.
        install: the command line that installs that version.
    """

    path: str
    version: str
    install: str

    def run(
        self, model: Any, feed: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the outputs of an ``onnx.ModelProto``, run as the settings of a party say.

        Raises:
            BackendError: the backend refuses it there.
        """


@port
def open_environment(path: str) -> OtherEnvironment:
    """Ask for the version in an interpreter, or a folder of a virtual environment.

    Raises:
        FileError: there is no interpreter.
        BackendError: the backend cannot be imported there.
    """


@port
def write_failure(folder: str, failure: Failure) -> None:
    """Write ``model.onnx``, and ``test_data_set_0`` with ``input_*.pb`` and ``output_*.pb``, as
    onnx's backend tests have them.

    Raises:
        FileError: a file cannot be written.
    """


@port
def failure_text(failure: Failure) -> str:
    """Return the part in the text format of ONNX, without the elements of large weights."""


@port
def failure_program(failure: Failure) -> str:
    """Return a program that needs the backend and numpy, and ends with exit code 1 where the
    fault shows; empty for a backend that none can be written for.
    """


@port
def find_violations(model: Any, values: Mapping[str, Any]) -> list[InvalidNode]:
    """Return the nodes of an ``onnx.ModelProto`` that break the ONNX specification, one rule each.

    Args:
        model: the model.
        values: by tensor of its main graph an array, as far as they are known.
    """


@port
def sanitize_model(model: Any, *, fold_constants: bool = False) -> Any:
    """Return a copy of an ``onnx.ModelProto`` with inferred types, and with folded constants if
    asked, as ``surgeon sanitize`` saves it.
    """


@port
def graph_with_weights(model: Any) -> Graph:
    """Return what an ``onnx.ModelProto`` consists of, with the values of its weights."""


@port
def describe_with_weights(model: Any) -> Model:
    """Describe an ``onnx.ModelProto``, with the values of its weights."""


@port
def apply_copies(model: Any, reference: Any, plan: Mending) -> Any:
    """Return a copy of a model with what a plan takes from the reference."""


@port
def change_node(model: Any, output: str, variant: Variant, *, asks: bool = False) -> Any:
    """Return a copy of a model in which the node that makes a tensor is another.

    Args:
        model: an ``onnx.ModelProto``.
        output: the tensor.
        variant: the node.
        asks: whether its weights become inputs of the model, the last ones.
    """


@port
def find_quantized_operands(model: Any) -> list[QuantisedOperand]:
    """Return which operands of which nodes are quantised, by QuantizeLinear and DequantizeLinear,
    before they are read.
    """


@port
def dequantize_model(model: Any) -> Any:
    """Return a copy of a model in which nodes read what was quantised as it was before, and weights
    in floating point.
    """


@port
def requantize_model(reference: Any, model: Any, places: Iterable[tuple[str, int, str]]) -> Any:
    """Return a copy of a model with operands quantised as they are in another.

    Args:
        reference: an ``onnx.ModelProto``.
        model: the other.
        places: nodes of the first, by their names or those of what they make, positions of their
            operands, and what is read in place of them in the other.
    """
