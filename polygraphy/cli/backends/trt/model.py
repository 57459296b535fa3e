"""How a program builds, loads and runs a TensorRT engine, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from polygraphy.codegen.call import Call, Name, Step
from polygraphy.codegen.source import Source

_BRIEF = 3
"""So many arguments of a configuration are easy to read within a longer expression."""

_OF_PATH, _OUTPUTS = "NetworkFromOnnxPath", "ModifyNetworkOutputs"


@frozen
class TrtConfig:
    """How the engine is built.

    Attributes:
        make: makes the configuration.
        postprocess: changes it, and lacks it as an argument; None for nothing.
        calibration: finds value ranges, of the whole model or of layers; None for not at all.
    """

    make: Call = Call("CreateConfig")
    postprocess: Call | None = None
    calibration: Call | None = None

    @property
    def call(self) -> Call | None:
        """The configuration; None where none needs to be given."""
        if self.postprocess is not None:
            return self.postprocess.of(self.make)
        return None if self.make == Call("CreateConfig") else self.make

    @property
    def own_calibration(self) -> Call | None:
        """The calibration if it is for the whole model, not only for layers that are quantised."""
        return self.calibration if "calibrator" in self.make.kwargs else None

    @property
    def is_brief(self) -> bool:
        """Whether it reads well within a longer expression."""
        arguments = self.make.kwargs.values()
        simple = all(isinstance(value, (bool, int, str)) for value in arguments)
        others = (self.postprocess, self.calibration, *self.make.args)
        return simple and len(arguments) <= _BRIEF and not any(others)


@frozen
class TrtNetwork:
    """Where the network comes from, and what is changed in it.

    Attributes:
        source: makes it, and lacks the model as an argument.
        plugins: loads libraries before; None for none.
        steps: change it in turn, and lack it as an argument.
    """

    source: Call = Call(_OF_PATH)
    plugins: Call | None = None
    steps: Sequence[Call] = ()

    def of(self, model: Any = None, *, is_path: bool = True) -> Call:
        """Return the network as its source gives it.

        Args:
            model: the name of the model, or an expression; None for an empty network.
            is_path: whether it stands for a path, rather than for a model or a loader of one.
        """
        parsed = self.source.name == _OF_PATH and not is_path
        source = evolve(self.source, name="NetworkFromOnnxModel") if parsed else self.source
        return self.with_plugins(source if model is None else source.of(model))

    def with_plugins(self, made: Call) -> Call:
        """Return something that is made when the libraries are loaded."""
        if self.plugins is None:
            return made
        return evolve(self.plugins, kwargs={**self.plugins.kwargs, "obj": made})

    def steps_from(
        self, model: Any = None, *, is_path: bool = True, name: str = "load_network"
    ) -> list[Step]:
        """Return the statements that lead to the changed network, which gets a name; see `of`."""
        made = [Step(name, self.of(model, is_path=is_path))]
        return made + [Step(name, step.of(Source(name))) for step in self.steps]

    @property
    def changes_outputs(self) -> bool:
        """Whether the network gets other outputs."""
        return any(step.name == _OUTPUTS for step in self.steps)

    @property
    def exclude_outputs(self) -> Sequence[str]:
        """Names and patterns of tensors that are no outputs."""
        listed = [step.kwargs.get("exclude_outputs", ()) for step in self.steps]
        return [name for names in listed for name in names]

    @property
    def is_brief(self) -> bool:
        """Whether it reads well within a longer expression."""
        arguments, changes = self.source.kwargs, (self.plugins, *self.steps)
        is_parsed = self.source.name == _OF_PATH and "config" not in arguments
        return is_parsed and len(arguments) <= 1 and not any(changes)


@frozen
class TrtModel:
    """An engine that is built or loaded.

    Attributes:
        is_engine: whether the model is an engine already, so that nothing is built.
        network: where the network comes from.
        config: how the engine is built.
        build: builds it, and lacks network and configuration.
        save: where the engine is saved.
        load: loads a saved engine, and lacks its path.
        runner: runs it, and lacks the engine.
    """

    is_engine: bool = False
    network: TrtNetwork = TrtNetwork()
    config: TrtConfig = TrtConfig()
    build: Call = Call("EngineFromNetwork")
    save: str | None = None
    load: Call = Call("EngineFromPath")
    runner: Call = Call("TrtRunner")

    def saved(self, path: Any) -> Call:
        """Return the loader of a saved engine; `path` is source."""
        return self.network.with_plugins(self.load.of(path))

    def brief(self, model: Any, *, is_path: bool) -> Call:
        """Return the whole way to an engine in one expression."""
        return self.build.of(self.network.of(model, is_path=is_path), config=self.config.call)

    @property
    def calibrates(self) -> bool:
        """Whether the build needs input data."""
        return self.config.calibration is not None

    @property
    def is_brief(self) -> bool:
        """Whether the whole way to the engine reads well in one expression."""
        return self.network.is_brief and self.config.is_brief and self.save is None

    @property
    def may_build_twice(self) -> bool:
        """Whether a second build has no effect on what the first one learns or keeps."""
        return not self.calibrates and "algorithm_selector" not in self.config.make.kwargs

    def preparations(self, model: Any, *, is_path: bool, cache: Source | None = None) -> list[Step]:
        """Return the statements that lead to ``load_network`` and ``create_config``.

        Args:
            model: the name of the ONNX model.
            is_path: whether that stands for its path, rather than for a model or a loader of one.
            cache: the name of what keeps value ranges, where that is no file.
        """
        calibration, config = self.config.calibration, self.config.call
        if calibration is not None and cache is not None:
            calibration = calibration.of(cache=cache)
        return [
            *([] if calibration is None else [Step("calibrator", calibration)]),
            *self.network.steps_from(model, is_path=is_path),
            *([] if config is None else [Step("create_config", config)]),
        ]

    def built(self, network: str = "load_network") -> Call:
        """Return what builds an engine of the network of this name."""
        config = None if self.config.call is None else Source("create_config")
        return self.build.of(Source(network), config=config)

    def steps(self, model: Any, *, is_path: bool) -> list[Step]:
        """Return the statements that lead to ``build_engine``, a loader; see `preparations`."""
        made = [
            *self.preparations(model, is_path=is_path),
            Step("build_engine", self.built()),
        ]
        if self.save is not None:
            save = Call("SaveEngine", [Source("build_engine")], {"path": self.save})
            made.append(Step("build_engine", save))
        return made

    def unmarked_steps(self, model: Any, *, is_path: bool) -> list[Step]:
        """Return the statements that lead to ``build_unmarked``, a loader; those of `steps` come
        before.
        """
        network = "load_unmarked_network"
        return [
            *self.network.steps_from(model, is_path=is_path, name=network),
            Step("build_unmarked", self.built(network)),
        ]

    @property
    def without_mark_all(self) -> TrtModel:
        """The same engine, of which not every tensor is an output."""
        steps = [
            step.of(outputs=None) if isinstance(step.kwargs.get("outputs"), Name) else step
            for step in self.network.steps
        ]
        kept = [step for step in steps if step.name != _OUTPUTS or step.kwargs]
        return evolve(self, network=evolve(self.network, steps=kept))

    @property
    def unmarked(self) -> TrtModel:
        """The engine of the same model with nothing marked as an output."""
        steps = [step for step in self.network.steps if step.name != _OUTPUTS]
        return evolve(self, network=evolve(self.network, steps=steps), save=None)
