"""How a program comes by a TensorRT engine, and how it runs it, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, evolve, frozen

TrtProfile = Mapping[str, Mapping[str, Sequence[int]]]
"""The shapes of each input, by ``min``, ``opt`` and ``max``; those that are missing follow from the
network."""

Symbol = tuple[str, str]
"""A script, and what it defines."""

_BRIEF = 3
"""So many arguments of a configuration are easy to read within a longer expression."""


@frozen
class TrtCalibration:
    """Arguments of `Calibrator`; None leaves a default alone."""

    cache: str | None = None
    base_class: str | None = None
    quantile: float | None = None
    regression_cutoff: float | None = None


@frozen
class TrtTactics:
    """The files in which tactics are recorded, that name those to use, and those to avoid."""

    save: str | None = None
    load: str | None = None
    exclude: str | None = None


@frozen
class TrtConfig:
    """How the engine is built; empty values leave defaults alone.

    Attributes:
        precisions: the data types that may be computed in, by argument of `CreateConfig`.
        options: further arguments: numbers, names and lists of such.
        profiles: ranges of input shapes.
        calibration: how int8, and fp8 where a model is quantised to it, are calibrated; None for
            not at all.
        tactics: which tactics are recorded, used or avoided.
        script: what makes the configuration instead.
        postprocess_script: what changes it afterwards.
        is_rtx: whether it is one for TensorRT-RTX alone.
    """

    precisions: Mapping[str, bool] = Factory(dict)
    options: Mapping[str, Any] = Factory(dict)
    profiles: Sequence[TrtProfile] = ()
    calibration: TrtCalibration | None = None
    tactics: TrtTactics | None = None
    script: Symbol | None = None
    postprocess_script: Symbol | None = None
    is_rtx: bool = False

    @property
    def is_default(self) -> bool:
        """Whether no configuration needs to be given."""
        return evolve(self, calibration=self.own_calibration) == TrtConfig()

    @property
    def own_calibration(self) -> TrtCalibration | None:
        """The calibration if it is for the whole model, not only for layers that are quantised."""
        is_whole = self.precisions.get("int8") or self.precisions.get("fp8")
        return self.calibration if is_whole else None

    @property
    def is_brief(self) -> bool:
        """Whether it reads well within a longer expression."""
        simple = all(isinstance(value, (bool, int, str)) for value in self.options.values())
        others = TrtConfig(precisions=self.precisions, options=self.options, is_rtx=self.is_rtx)
        return self == others and simple and len(self.precisions) + len(self.options) <= _BRIEF


@frozen
class TrtNetwork:
    """Where the network comes from, and what is changed in it; empty values leave defaults alone.

    Attributes:
        script: what makes it; else it is parsed from the ONNX model.
        parsing: arguments of `NetworkFromOnnxPath` and `NetworkFromOnnxModel` beside the model.
        parser_config: the configuration that the parser knows; None for none.
        plugins: libraries that are loaded before.
        postprocess_scripts: what changes it first.
        mark_all: whether every tensor becomes an output, whatever `outputs` says.
        outputs: names and patterns of tensors that become outputs.
        mark_types: types of layers whose outputs become outputs.
        exclude_outputs: names and patterns of tensors that are no outputs.
        layer_precisions: data types by layer.
        decomposable_attentions: whether attention layers may be taken apart.
        tensor_datatypes: a data type for all inputs and outputs, or data types by name.
        tensor_formats: formats for all inputs and outputs, or formats by name.
        debug_tensors: tensors whose values are shown.
    """

    script: Symbol | None = None
    parsing: Mapping[str, Any] = Factory(dict)
    parser_config: TrtConfig | None = None
    plugins: Sequence[str] = ()
    postprocess_scripts: Sequence[Symbol] = ()
    mark_all: bool = False
    outputs: Sequence[str] = ()
    mark_types: Sequence[str] = ()
    exclude_outputs: Sequence[str] = ()
    layer_precisions: Mapping[str, str] = Factory(dict)
    decomposable_attentions: bool = False
    tensor_datatypes: Any = None
    tensor_formats: Any = None
    debug_tensors: Sequence[str] = ()

    @property
    def changes_outputs(self) -> bool:
        """Whether the network gets other outputs."""
        return self.mark_all or any((self.outputs, self.mark_types, self.exclude_outputs))

    @property
    def is_brief(self) -> bool:
        """Whether it reads well within a longer expression."""
        return self == TrtNetwork(parsing=self.parsing) and len(self.parsing) <= 1


@frozen
class TrtModel:
    """An engine that is built or loaded.

    Attributes:
        is_engine: whether the model is an engine already, so that nothing is built.
        network: where the network comes from.
        config: how the engine is built.
        save_timing_cache: where measured times are kept.
        save: where the engine is saved.
        device: index of the GPU that it is built on.
        load_runtime: the library that loads engines.
        dla_workspace_allocation_strategy: how DLA workspaces are allocated.
        running: arguments of `TrtRunner` beside the engine.
    """

    is_engine: bool = False
    network: TrtNetwork = TrtNetwork()
    config: TrtConfig = TrtConfig()
    save_timing_cache: str | None = None
    save: str | None = None
    device: int | None = None
    load_runtime: str | None = None
    dla_workspace_allocation_strategy: str | None = None
    running: Mapping[str, Any] = Factory(dict)

    @property
    def calibrates(self) -> bool:
        """Whether the build needs input data."""
        return self.config.calibration is not None

    @property
    def calibrates_layers(self) -> bool:
        """Whether it needs them for some layers only."""
        return self.calibrates and self.config.own_calibration is None

    @property
    def is_brief(self) -> bool:
        """Whether the whole way to the engine reads well in one expression."""
        return self.network.is_brief and self.config.is_brief and self.save is None

    @property
    def may_build_twice(self) -> bool:
        """Whether a second build has no effect on what the first one learns or keeps."""
        return not self.calibrates and self.config.tactics is None

    @property
    def unmarked(self) -> TrtModel:
        """The engine of the same model with nothing marked as an output."""
        network = evolve(
            self.network, mark_all=False, outputs=(), mark_types=(), exclude_outputs=()
        )
        return evolve(self, network=network, save=None)
