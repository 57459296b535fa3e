"""ONNX Runtime sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx_common.loadable import loadable_form
from polygraphy.adapters.onnxruntime.providers import (
    Provider,
    match_providers,
    session_arguments,
    translate_errors,
)
from polygraphy.adapters.onnxruntime.starting import names_of, start_session
from polygraphy.adapters.os.forks import OneProcess, has_started_cuda
from polygraphy.adapters.os.paths import readable_file
from polygraphy.adapters.os.signals import cancellable
from polygraphy.binding import resolve
from polygraphy.domain.catalog.compute import (
    TF32,
    TF32_ENVIRONMENT,
    TF32_OPERATORS,
    ComputePrecision,
)
from polygraphy.domain.errors import BackendError, UnknownNameError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import DeferredFacts, Facts, ModelFacts
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import computes_in_tf32, cores, is_tf32_forced
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import (
    crashing_node,
    describe_node_inputs,
    find_facts,
    inputs_of_known_rank,
)

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession, RunOptions, SessionOptions


onnxrt = mod.lazy_import("onnxruntime>=1.10.0")

T = TypeVar("T")

session_from_onnx: Callable[..., InferenceSession]
_LEVELS = {
    "disable": "DISABLE_ALL",
    "basic": "ENABLE_BASIC",
    "extended": "ENABLE_EXTENDED",
    "all": "ENABLE_ALL",
}

_facts: MutableMapping[InferenceSession, Facts] = WeakKeyDictionary()
"""Facts about the models of the sessions created here."""

_scalars: MutableMapping[InferenceSession, Collection[str]] = WeakKeyDictionary()
"""Inputs of known rank, by session; only of sessions with inputs that may be scalars."""


@mod.export(funcify=True)
class SessionFromOnnx(BaseLoader):
    """Creates an ONNX Runtime inference session from an ONNX model."""

    def __init__(
        self,
        model_bytes: Deferred[bytes | str | ModelProto],
        providers: Sequence[Provider] | None = None,
        graph_optimization_level: str | None = None,
        memory_arena: bool | None = None,
        threads: int | None = None,
        disabled_optimizers: Sequence[str] | None = None,
        provider_libraries: Mapping[str, str] | None = None,
    ) -> None:
        """Set the model and the options of the session.

        Args:
            model_bytes: a serialized model, its path, the model itself, or a loader that returns
                one of these. A model of more than 2 GB is passed through a temporary file.
            providers: execution providers in order of priority: names or unique parts of names in
                any case, each alone or as ``(name, options)`` (default: the CPU provider).
            graph_optimization_level: ``ENABLE_ALL``, ``ENABLE_EXTENDED``, ``ENABLE_BASIC`` or
                ``DISABLE_ALL`` (default: ONNX Runtime decides).
            memory_arena: whether memory is kept for the next run (default: True). An arena,
                including the weights, remains as long as any of its outputs. Without an arena, each
                run takes slightly longer.
            threads: the number of threads per operator (default: the number of cores available to
                the process).
            disabled_optimizers: the names of graph rewrites to skip, in upper or lower case, such
                as ``LayerNormFusion`` (default: none).
            provider_libraries: plugins with additional execution providers, for ONNX Runtime 1.23
                or later: a dictionary from names, which `providers` can use, to paths of libraries
                or to modules with a function ``get_library_path``. A plugin is registered once per
                process. If a provider has several devices, the first one is used, or the one that
                its option ``device`` names, as in ``("openvino", {"device": "GPU"})``.

        Raises:
            UsageError: the number of threads is less than one.
        """
        if threads is not None and threads < 1:
            raise UsageError(f"There must be at least one thread, not {threads}.")
        self._model = model_bytes
        self._providers = ["cpu"] if providers is None else list(providers)
        self._graph_optimization_level = graph_optimization_level
        self._memory_arena = memory_arena is not False
        self._threads = threads
        self._disabled_optimizers = list(disabled_optimizers or ())
        self._provider_libraries = dict(provider_libraries or {})

    def call_impl(self) -> InferenceSession:
        """Return a session of the model.

        Raises:
            FileError: the model file is missing or empty.
            ModelError: the model is damaged.
            UnknownNameError: a provider does not exist in this installation.
            BackendError: ONNX Runtime cannot load the model, or would crash when it runs it; or
                ONNX Runtime cannot load a plugin, or finds no device for it.
            UnavailableError: a provider does not start, and the CPU provider is not in the list.
        """
        return self.create(lambda options: None)

    def create(self, change: Callable[[SessionOptions], object]) -> InferenceSession:
        """Return a session of the model, with options changed by `change`."""
        providers = match_providers(self._providers, self._provider_libraries)
        options = session_options(self._graph_optimization_level)
        options.enable_cpu_mem_arena = self._memory_arena
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        change(options)
        without = match_rewrites(self._disabled_optimizers)
        model: Any = evaluate(self._model)
        name = "the model"
        if isinstance(model, (str, Path)):
            name = model = str(readable_file(model, "Model"))
        G_LOGGER.progress(
            "Creating ONNX-Runtime Inference Session with providers: "
            f"{[provider if isinstance(provider, str) else provider[0] for provider in providers]}"
        )

        notes_placements = not are_on_host(providers) and self._memory_arena
        if notes_placements:  # Omitted for parts of a model, because there are many.
            from polygraphy.adapters.onnxruntime.placement import placements_of, record_placements

            record_placements(options)

        def create_session(model: Any) -> InferenceSession:
            """Return a session for a model; print notes about its providers."""
            _refuse_crashing_node(model)
            with translate_errors("load", name, uses_device=lambda: not are_on_host(providers)):
                session = load_session(model, options, providers, without)
            wanted = names_of(providers)[0]
            if notes_placements and (text := placements_of(session, wanted).summary()):
                resolve(Console).note(f"{text} `polygraphy inspect model --providers` lists them.")
            return session

        with loadable_form(model) as source:
            return _remember_model(create_session(source), model)


DEVICE = OneProcess("ONNX Runtime on a device")
"""The process that uses providers of devices: their contexts do not survive a fork."""


def _note_started_cuda() -> None:
    """Record that this process used the GPU, if CUDA was started."""
    if has_started_cuda():
        DEVICE.note()


if hasattr(os, "register_at_fork") and hasattr(os, "RTLD_NOLOAD"):
    os.register_at_fork(before=_note_started_cuda)

_ON_HOST = frozenset({"CPUExecutionProvider", "AzureExecutionProvider"})
"""The providers that a forked process can use."""
CUDA = "CUDAExecutionProvider"


def are_on_host(providers: Sequence[Provider]) -> bool:
    """Return whether all providers are among those that a forked process can use.
    Names may be parts of names, as users write them.
    """
    return all(name.lower() in ("cpu", "azure") or name in _ON_HOST for name in names_of(providers))


_made: WeakSet[InferenceSession] = WeakSet()
if hasattr(os, "register_at_fork"):
    # A forked process lacks these threads: releasing a session there crashes, or never ends.
    os.register_at_fork(after_in_child=lambda: _inherited.extend(_made))
_inherited: list[InferenceSession] = []


def load_session(
    model: bytes | str,
    options: SessionOptions,
    providers: Sequence[Provider],
    without: Sequence[str] = (),
) -> InferenceSession:
    """Return a session of a serialized model or a path, optionally without some rewrites.
    From ONNX Runtime 1.31, Ctrl-C ends loading within seconds, because other Python threads can
    run.

    Raises:
        UnavailableError: a provider does not start, and the CPU provider is not in the list.
        UsageError: a provider needs a device, and this process was forked from one that used it.
    """
    cancel = getattr(options, "set_load_cancellation_flag", None)

    if not _ON_HOST.issuperset(names_of(providers)):
        DEVICE.check()

    def create_session(requested: Sequence[Provider]) -> InferenceSession:
        """Return a session with some providers; ctrl-C can cancel it."""
        arguments = session_arguments(options, requested)
        if without:
            arguments["disabled_optimizers"] = list(without)

        def load() -> InferenceSession:
            # ONNX Runtime's own fallback prints to standard output, and then computes on the CPU.
            """Return the session, without a fallback to other providers."""
            inference_session: InferenceSession = onnxrt.InferenceSession(
                model, sess_options=options, enable_fallback=0, **arguments
            )
            inference_session.disable_fallback()
            _made.add(inference_session)
            if not _ON_HOST.issuperset(inference_session.get_providers()):
                DEVICE.enter()
            return inference_session

        return load() if cancel is None else cancellable(load, lambda: cancel(True))

    return start_session(create_session, providers)


def run_terminable(call: Callable[[RunOptions], T]) -> T:
    """Return the result of a function called with run options; Ctrl-C ends it soon.

    That takes 4 microseconds, half the time of a tiny model.
    """
    options = onnxrt.RunOptions()
    return cancellable(partial(call, options), lambda: setattr(options, "terminate", True))


def _refuse_crashing_node(model: str | bytes) -> None:
    """Raise BackendError if a node of a model crashes ONNX Runtime."""
    problem, hint = crashing_node(model)
    if problem:
        raise BackendError(
            f"{problem}, which crashes ONNX Runtime.", backend="onnxruntime", hint=hint
        )


def _remember_model(session: InferenceSession, model: Any) -> InferenceSession:
    """Store the facts about the model of a session, read from a file when they are needed, and
    return the session.
    """
    find = partial(find_facts, model, compute_precision(session))
    is_file = isinstance(model, (str, Path))
    _facts[session] = DeferredFacts(find) if is_file else find()
    if not all(tensor.shape for tensor in session.get_inputs()):
        _scalars[session] = inputs_of_known_rank(model)
    return session


def compute_precision(session: InferenceSession) -> ComputePrecision | None:
    """Return the precision of a session's operators on float32 tensors; None if it is float32."""
    if CUDA not in session.get_providers():
        return None
    return cuda_precision(session.get_provider_options().get(CUDA, {}))


def cuda_precision(options: Mapping[str, Any]) -> ComputePrecision | None:
    """Return the precision of the CUDA provider's operators on float32 tensors, or None.
    The result is None if it is float32.

    Args:
        options: the options of the provider.
    """
    gpu = int(options.get("device_id", 0))
    if not computes_in_tf32(gpu):
        return None
    if is_tf32_forced():
        return ComputePrecision(TF32, TF32_OPERATORS, "onnxrt", f"{TF32_ENVIRONMENT}=0")
    if str(options.get("use_tf32", 1)) == "0":
        return None
    precision = "cuda:" + (f"device_id={gpu}," if gpu else "") + "use_tf32=0"
    return ComputePrecision(TF32, TF32_OPERATORS, "onnxrt", f"--providers {precision}")


def scalars_of(session: InferenceSession) -> Collection[str]:
    """Return the names of inputs that are scalars; empty if the session was created elsewhere."""
    if session not in _scalars:
        source = getattr(session, "_model_path", None) or getattr(session, "_model_bytes", None)
        _scalars[session] = inputs_of_known_rank(source) if source else ()
    return _scalars[session]


def facts_of(session: InferenceSession) -> Facts:
    """Return the facts about the model of a session; empty if it was created elsewhere."""
    return _facts.get(session, ModelFacts())


def inputs_of_node(
    session: InferenceSession | None, op: str, name: str, shapes: Mapping[str, Sequence[int]]
) -> str:
    """Return a phrase about the inputs of a node; empty if they are unknown."""
    # A session keeps its model to recreate itself with other providers.
    parts = (getattr(session, part, None) for part in ("_model_path", "_model_bytes"))
    model = next((part for part in parts if part), None)
    return "" if model is None else describe_node_inputs(model, op, name, shapes)


def session_options(graph_optimization_level: str | None) -> SessionOptions:
    """Return options for a session that uses the cores this process may use, and reports through
    exceptions only.
    """
    options: SessionOptions = onnxrt.SessionOptions()
    options.intra_op_num_threads = cores()
    options.log_severity_level = 4  # Hide the log, because exceptions contain the same messages.
    if graph_optimization_level is not None:
        members = onnxrt.GraphOptimizationLevel.__members__
        wanted = _LEVELS.get(graph_optimization_level.lower(), graph_optimization_level.upper())
        name = wanted if wanted in members else f"ORT_{wanted}"
        if name not in members:
            raise UnknownNameError("Graph optimization level", graph_optimization_level, members)
        options.graph_optimization_level = members[name]
    return options


REWRITES = (
    "AttentionFusion", "Avx2WeightS8ToU8Transformer", "BiasDropoutFusion", "BiasGeluFusion",
    "BiasSkipLayerNormFusion", "BiasSoftmaxFusion", "CastChainElimination", "CastElimination",
    "CastFloat16Transformer", "CommonSubexpressionElimination", "ConstantFolding",
    "ConstantSharing", "ConvActivationFusion", "ConvAddActivationFusion", "ConvAddFusion",
    "ConvBNFusion", "ConvMulFusion", "DQMatMulNBitsFusion", "DivMulFusion", "DoubleQDQPairsRemover",
    "DynamicQuantizeMatMulFusion", "EliminateDropout", "EliminateIdentity", "EliminateSlice",
    "EmbedLayerNormFusion", "EnsureUniqueDQForNodeUnit", "ExpandElimination", "FastGeluFusion",
    "FuseFp16InitializerToFp32NodeTransformer", "FuseReluClip", "GatherSliceToSplitFusion",
    "GatherToSliceFusion", "GatherToSplitFusion", "GeluApproximation", "GeluFusion", "GeluFusionL1",
    "GeluFusionL2", "GemmActivationFusion", "GemmSumFusion", "GemmTransposeFusion",
    "GroupQueryAttentionFusion", "GroupQueryAttentionPreNormFusion",
    "IdenticalChildrenConsolidation", "IsInfReduceSumFusion", "LabelEncoderFusion",
    "LayerNormFusion", "LayerNormFusionL1", "LayerNormFusionL2", "MatMulActivationFusion",
    "MatMulAddFusion", "MatMulIntegerToFloatFusion", "MatMulNBitsFusion", "MatMulNBitsMlpFusion",
    "MatMulNBitsQkvFusion", "MatMulScaleFusion", "MatMul_BatchNormalization_Fusion",
    "MatmulTransposeFusion", "NchwcTransformer", "NhwcTransformer", "NoopElimination",
    "NotWhereFusion", "Pad_Fusion", "PreShapeNodeElimination", "PropagateCastOps",
    "QDQFinalCleanupTransformer", "QDQPropagationTransformer", "QDQS8ToU8Transformer",
    "QDQSelectorActionTransformer", "QuickGeluFusion", "RemoveDuplicateCastTransformer",
    "ReshapeFusion", "ShapeInputMerge", "SimplifiedLayerNormFusion", "SkipLayerNormFusion",
    "SliceConcatToSpaceToDepthFusion", "SwiGluFusion", "TransposeOptimizer",
    "TransposeOptimizer_CPUExecutionProvider", "UnsqueezeElimination", "WeightBiasQuantization",
    "WhereDummyDq",
)  # fmt: skip
"""Rewrites of the releases from 1.15 on; one that a release does not have is ignored by it."""

_TWICE = ("L1", "L2")
"""Suffixes of rewrites that run twice, from ONNX Runtime 1.20."""

_GROUP = "RuleBasedTransformer"
"""Part of the names of groups of rewrites, one group per level."""


def match_rewrites(names: Sequence[str]) -> list[str]:
    """Return rewrites by the exact names that ONNX Runtime requires; warn of unknown ones,
    which it ignores silently.
    """
    known_names = {name.lower(): name for name in REWRITES}
    rewrites = []
    for name in names:
        exact = known_names.get(name.lower())
        if exact is None and _GROUP not in name:
            matches = get_close_matches(name.lower(), known_names, n=2)
            suggestions = " or ".join(known_names[match] for match in matches)
            G_LOGGER.warning(
                f"{name!r} is not a known optimizer of ONNX Runtime, which ignores unknown"
                f" names{f'; did you mean {suggestions}?' if suggestions else '.'}"
            )
        levels = (f"{exact}{level}" for level in _TWICE)
        rewrites += [exact or name, *(level for level in levels if level in REWRITES)]
    return rewrites


_OTHER_NAMES = {"float64": "double", "float32": "float", "float4": "float4e2m1"}


class OnnxrtDataTypes:
    """Converts between this package's data types and ONNX Runtime's names of tensor types."""

    _to_native = {
        entry: f"tensor({_OTHER_NAMES.get(entry.name, entry.name)})" for entry in DataType
    }
    _from_native = {native: entry for entry, native in _to_native.items()}

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the name, such as ``tensor(float)``."""
        return self._to_native.get(entry)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return the data type for a type of ONNX Runtime, or None.
        The result is None for sequences, maps and optionals."""
        return self._from_native.get(dtype)
