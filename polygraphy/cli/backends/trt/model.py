"""The calls with which a program builds, loads and runs an engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from polygraphy.codegen.source import Call, Name, Source, Step

_BRIEF = 3
"""Up to this number of arguments, a configuration is written inside a longer expression."""

_LOADED = "load{}_network"
"""The name of the final network, with a suffix."""

_NOT_FIRST = re.compile(r"(?<!^)(?=[A-Z])")

_OF_PATH, _OUTPUTS = "NetworkFromOnnxPath", "ModifyNetworkOutputs"


def save_engine_step(path: Any) -> list[Step]:
    """Return the statement that saves the result of ``build_engine``: ``save_engine``, a loader."""
    return [Step("save_engine", Call("SaveEngine", [Source("build_engine")], {"path": path}))]


@frozen
class TrtConfig:
    """The calls that create a builder configuration.

    Attributes:
        make: the call that creates the configuration.
        postprocess: the call that changes it, without its first argument; None for none.
        calibration: the call that creates the calibrator, for the whole model or for layers; None
            for none.
    """

    make: Call = Call("CreateConfig")
    postprocess: Call | None = None
    calibration: Call | None = None

    @property
    def call(self) -> Call | None:
        """Return the call that creates the configuration; None for the default one."""
        if self.postprocess is not None:
            return self.postprocess.of(self.make)
        return None if self.make == Call("CreateConfig") else self.make

    @property
    def model_calibration(self) -> Call | None:
        """Return the call of the calibrator for the whole model, or None.
        The result is None without one, or if it is only for quantized layers.
        """
        return self.calibration if "calibrator" in self.make.kwargs else None

    @property
    def is_brief(self) -> bool:
        """Return whether the call is short enough for a longer expression."""
        arguments = self.make.kwargs.values()
        simple = all(isinstance(value, (bool, int, str)) for value in arguments)
        other_pair = (self.postprocess, self.calibration, *self.make.args)
        return simple and len(arguments) <= _BRIEF and not any(other_pair)


@frozen
class TrtNetwork:
    """The source of a network, and its edits.

    Attributes:
        source: the call that creates it, without the argument for the model.
        plugins: the call that loads libraries first; None for none.
        steps: the calls that change it in turn, without the argument for the network.
    """

    source: Call = Call(_OF_PATH)
    plugins: Call | None = None
    steps: Sequence[Call] = ()

    def of(self, model: Any = None, *, is_path: bool = True) -> Call:
        """Return the call that creates the network, without edits.

        Args:
            model: the name of the model, or an expression; None for an empty network.
            is_path: whether it is a path, instead of a model or a loader of one.
        """
        parsed = self.source.name == _OF_PATH and not is_path
        source = evolve(self.source, name="NetworkFromOnnxModel") if parsed else self.source
        return self.with_plugins(source if model is None else source.of(model))

    def with_plugins(self, call: Call) -> Call:
        """Return a call that first loads the plugin libraries."""
        if self.plugins is None:
            return call
        return evolve(self.plugins, kwargs={**self.plugins.kwargs, "obj": call})

    def steps_from(
        self, model: Any = None, *, is_path: bool = True, suffix: str = ""
    ) -> list[Step]:
        """Return the statements up to the edited network, ``load_network``.

        Args:
            model: see `of`.
            is_path: see `of`.
            suffix: the suffix of names that appear next to those of another network.
        """
        call = self.of(model, is_path=is_path)
        if not self.steps:
            return [Step(_LOADED.format(suffix), call)]
        is_parsed = self.source.name.startswith("NetworkFromOnnx")
        name = f"{'parse' if is_parsed else 'create'}_network{suffix}"
        return [Step(name, call), *self.changes_of(Source(name), suffix)]

    def changes_of(self, network: Source, suffix: str = "") -> list[Step]:
        """Return the statements that edit a network, each named after its effect, the last one
        ``load_network``.
        """
        new_steps: list[Step] = []
        for index, step in enumerate(self.steps, 1):
            name = _NOT_FIRST.sub("_", step.name).lower()
            number = sum(call.name == step.name for call in self.steps[:index])
            name = f"{name}{suffix}" if number == 1 else f"{name}{suffix}_{number}"
            name = _LOADED.format(suffix) if index == len(self.steps) else name
            new_steps.append(Step(name, step.of(network)))
            network = Source(name)
        return new_steps

    @property
    def changes_outputs(self) -> bool:
        """Return whether the outputs of the network change."""
        return any(step.name == _OUTPUTS for step in self.steps)

    @property
    def exclude_outputs(self) -> Sequence[str]:
        """Return names and patterns of tensors that do not become outputs."""
        listed = [step.kwargs.get("exclude_outputs", ()) for step in self.steps]
        return [name for names in listed for name in names]

    @property
    def is_brief(self) -> bool:
        """Return whether the call is short enough for a longer expression."""
        arguments, changes = self.source.kwargs, (self.plugins, *self.steps)
        is_parsed = self.source.name == _OF_PATH and "config" not in arguments
        return is_parsed and len(arguments) <= 1 and not any(changes)


@frozen
class TrtModel:
    """An engine that a program builds or loads.

    Attributes:
        is_engine: whether the model is an engine already, so that nothing is built.
        network: the source of the network.
        config: the build configuration.
        build: the call that builds it, without network and configuration.
        save: path for the engine.
        load: the call that loads a saved engine, without its path.
        runner: the call that creates the runner, without the engine.
    """

    is_engine: bool = False
    network: TrtNetwork = TrtNetwork()
    config: TrtConfig = TrtConfig()
    build: Call = Call("EngineFromNetwork")
    save: str | None = None
    load: Call = Call("EngineFromPath")
    runner: Call = Call("TrtRunner")

    def load_call(self, path: Any) -> Call:
        """Return the call that loads a saved engine; `path` is source code."""
        return self.network.with_plugins(self.load.of(path))

    def brief(self, model: Any, *, is_path: bool) -> Call:
        """Return the whole build of an engine as one expression."""
        return self.build.of(self.network.of(model, is_path=is_path), config=self.config.call)

    @property
    def calibrates(self) -> bool:
        """Return whether the build measures value ranges on input data."""
        return self.config.calibration is not None

    @property
    def needs_data(self) -> bool:
        """Return whether the build needs input data, or their shapes."""
        return self.calibrates or isinstance(self.config.make.kwargs.get("profiles"), Source)

    @property
    def is_brief(self) -> bool:
        """Return whether the whole build is readable as one expression."""
        return self.network.is_brief and self.config.is_brief and self.save is None

    @property
    def may_build_twice(self) -> bool:
        """Return whether a second build leaves the records of the first one unchanged."""
        return not self.calibrates and "algorithm_selector" not in self.config.make.kwargs

    def preparations(
        self,
        model: Any,
        *,
        is_path: bool,
        cache: Source | None = None,
        network: Source | None = None,
    ) -> list[Step]:
        """Return the statements up to ``load_network`` and ``create_config``.

        Args:
            model: the name of the ONNX model.
            is_path: whether that is a path, instead of a model or a loader of one.
            cache: the name of the variable with the value ranges, if they are not in a file.
            network: the name of the unchanged network in the program, if it has one.
        """
        calibration, config = self.config.calibration, self.config.call
        if calibration is not None and cache is not None:
            calibration = calibration.of(cache=cache)
        return [
            *([] if calibration is None else [Step("calibrator", calibration)]),
            *(
                self.network.steps_from(model, is_path=is_path)
                if network is None
                else self.network.changes_of(network)
            ),
            *([] if config is None else [Step("create_config", config)]),
        ]

    def build_engine(self, network: str = "load_network") -> Call:
        """Return the call that builds an engine from the network of this name."""
        config = None if self.config.call is None else Source("create_config")
        return self.build.of(Source(network), config=config)

    def steps(self, model: Any, *, is_path: bool) -> list[Step]:
        """Return the statements up to a loader of the engine, `loader_name`; see `preparations`."""
        return [
            *self.preparations(model, is_path=is_path),
            Step("build_engine", self.build_engine()),
            *([] if self.save is None else save_engine_step(self.save)),
        ]

    @property
    def loader_name(self) -> Source:
        """Return the name of the loader that `steps` end with."""
        return Source("build_engine" if self.save is None else "save_engine")

    def unmarked_steps(self, model: Any, *, is_path: bool) -> list[Step]:
        """Return the statements after `steps` up to ``build_unmarked``, a loader."""
        suffix = "_unmarked"
        return [
            *self.network.steps_from(model, is_path=is_path, suffix=suffix),
            Step("build_unmarked", self.build_engine(_LOADED.format(suffix))),
        ]

    @property
    def without_mark_all(self) -> TrtModel:
        """Return the same engine without marking every tensor as an output."""
        steps = [
            step.of(outputs=None) if isinstance(step.kwargs.get("outputs"), Name) else step
            for step in self.network.steps
        ]
        mark_all = [step for step in steps if step.name != _OUTPUTS or step.kwargs]
        return evolve(self, network=evolve(self.network, steps=mark_all))

    @property
    def without_marks(self) -> TrtModel:
        """Return the engine of the same model without marked outputs."""
        steps = [step for step in self.network.steps if step.name != _OUTPUTS]
        return evolve(self, network=evolve(self.network, steps=steps), save=None)
