"""How `run` runs a model as a whole: what comes before the runners, and what runs them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.cli.backends.built_in import Chosen, RunnerModel
from polygraphy.cli.commands.run.run_backends import Backends
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.compare import CompareOptions
from polygraphy.cli.shared.data import USUAL, data_step
from polygraphy.cli.shared.onnx_model import OnnxModel
from polygraphy.cli.shared.runners import OrderOptions
from polygraphy.codegen.call import Call, Expression, Step
from polygraphy.codegen.source import Source

_PATH = RunnerModel.path
_LOADER = Source("data_loader")


@frozen
class Run:
    """The statements of a program that run a model; without runners, there are none.

    Attributes:
        before: statements before the list of runners.
        name: what that list is called.
        runners: what it holds.
        after: statements after it.
        call: what runs them.
        is_lazy: whether that runs nothing until its results are asked for.
        is_split: whether the results are taken apart by runner.
    """

    before: Sequence[Step] = ()
    name: Source = Source("runners")
    runners: Sequence[Expression] = ()
    after: Sequence[Step] = ()
    call: Call = Call("Comparator.run")
    is_lazy: bool = False
    is_split: bool = False


def as_a_whole(values: Values, backends: Backends, data: Call, *, also_unmarked: bool) -> Run:
    """Return how a model is run as a whole.

    Args:
        values: the options.
        backends: what runs it.
        data: what makes the data loader.
        also_unmarked: whether runners of which tensors are marked are joined by ones of the model
            as it is.
    """
    chosen = backends.chosen
    names = dict.fromkeys(name for name, text in backends.runners)
    unmarked = _unmarked(backends) if also_unmarked else {}
    calibrates = any(chosen[name].calibrates for name in names)
    name = Source("model" if backends.shares_onnx else "load_model")
    before, model = _loaded(backends.onnx, name, is_shared=backends.shares_onnx)
    before += data_step(data, calibrates=True) if calibrates else []
    for each in names:
        before += chosen[each].steps(model)
    plain_model = model
    if unmarked:
        plain = backends.onnx.without("modify_outputs", "save_onnx")
        loads, plain_model = _loaded(plain, Source("load_unmarked"))
        before += loads
    for as_it_is in unmarked.values():
        before += as_it_is.steps(plain_model)
    runners: list[Expression] = []
    for each, text in backends.runners:
        runner = chosen[each].runner(RunnerModel(model.source, model.is_path, text))
        if each in unmarked:
            runner = Call(
                "WithUnmarked",
                [runner, unmarked[each].runner(plain_model)],
                {"exclude_outputs": backends.excluded or None},
            )
        runners.append(runner)
    is_sequential = one_after_the_other(values[OrderOptions])
    has_loader = calibrates or data != USUAL
    return Run(
        before=before,
        runners=runners,
        after=[] if calibrates else data_step(data),
        call=call_of(
            "Comparator.run",
            values,
            Source("runners"),
            *([_LOADER] if has_loader else ()),
            streaming=None if is_sequential else True,
        ),
        is_lazy=not is_sequential,
        is_split=is_sequential and values[CompareOptions].validate,
    )


def one_after_the_other(options: OrderOptions) -> bool:
    """Return whether one runner runs after the other, rather than side by side."""
    return options.sequential_runners or options.use_subprocess or options.warm_up is not None


def _loaded(
    onnx: OnnxModel, name: Source, *, is_shared: bool = False
) -> tuple[list[Step], RunnerModel]:
    """Return the statement that loads a model, or makes a loader of it, if one is needed; and what
    backends run then.
    """
    if onnx.is_as_saved:
        return [], RunnerModel(_PATH, is_path=True)
    made = onnx.of(_PATH) if is_shared else onnx.loader(_PATH)
    return [Step(name, made)], RunnerModel(name, is_path=False)


def _unmarked(backends: Backends) -> dict[str, Chosen]:
    """Return the backends whose tensors are marked, as they run the model as it is, where that
    tells more.
    """
    marks = bool(backends.onnx.outputs)
    return {
        name: each.unmarked
        for name, each in backends.chosen.items()
        if each.unmarked is not None and (each.marks or marks)
    }
