"""Options for models with states: number of steps, tokens, and pairs of outputs and inputs."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.kinds import Integer, Text, Texts
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.data import USUAL
from polygraphy.codegen.source import Call, Source
from polygraphy.domain.catalog.steps import DEFAULT_STEPS

DATA_PROFILES = Source("data_loader.profiles()")
"""The ranges of shapes of the prompt and of later steps."""


class _Steps(Integer):
    """A number of steps, with a default."""

    def __init__(self) -> None:
        """Allow numbers from 1."""
        super().__init__(minimum=1)
        self.nargs = "?"

    def parse(self, words: Sequence[str]) -> int:
        """Return the number of steps."""
        if not words:
            return DEFAULT_STEPS
        if not words[0].lstrip("+-").isdigit():
            raise BadValue(
                f"{words[0]!r} is not a number of steps. Put the model first: MODEL --steps"
            )
        return super().parse(words)

    def unparse(self, value: int) -> list[str]:
        """Return the number as words; empty if it is the default."""
        return [] if value == DEFAULT_STEPS else [f"{value}"]


class _States(Texts):
    """Pairs of an output and an input, or ``none``."""

    metavar = "OUT:IN"
    adds_up = True

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the pairs unchanged."""
        for word in words:
            output, _, name = word.rpartition(":")
            if word == "none" and len(words) > 1:
                raise BadValue("none cannot be combined with other states")
            if word != "none" and not (output and name):
                raise BadValue(f"{word!r} is not OUTPUT:INPUT, such as present:past")
        for at, text in ((0, "output"), (2, "input")):
            names = [word.rpartition(":")[at] for word in words if ":" in word]
            for name in names:
                if names.count(name) > 1:
                    raise BadValue(f"{text} {name!r} is in two states: pair it once")
        return tuple(words)


@option_group
class StepOptions(Options):
    """Steps: run a model with states repeatedly; outputs of a step are inputs of the next."""

    steps: int | None = option(
        "--steps",
        kind=_Steps(),
        excludes=("--iterations",),
        help="Run the model N times; without N, 8 times. Each runner feeds its own states back: a"
        " KV cache or the state of a recurrent network. States are found in the graph, in a"
        " genai_config.json next to the model, or by name.",
        feeds="StepLoader.steps",
    )
    prompt: int | None = option(
        "--prompt",
        kind=Integer(minimum=1),
        needs="--steps",
        help="Number of tokens in the first step; each later step has one.",
        otherwise="4",
        feeds="StepLoader.prompt",
    )
    state: tuple[str, ...] = option(
        "--state",
        kind=_States(),
        needs="--steps",
        help="Outputs and the inputs that they become in the next step, as in --state hn:h0 cn:c0."
        " none turns feedback off.",
        otherwise="found in the model",
    )
    tokens: str | None = option(
        "--tokens",
        kind=Text("FILE"),
        reads="File of tokens",
        needs="--steps",
        help="Feed these tokens to every runner: a text or JSON file of whole numbers, or an .npy"
        " file.",
        otherwise="random tokens",
        feeds="StepLoader.tokens",
    )
    first_model: str | None = option(
        "--first-model",
        kind=Text("PATH"),
        reads="Model of the first step",
        needs="--steps",
        help="ONNX model that runs the first step, if prompt and decoding are two files, as in"
        " decoder_with_past_model.onnx --first-model decoder_model.onnx.",
        feeds="StepLoader.first_model",
    )


def with_steps(values: Values, data: Call, model: Source | None) -> Call:
    """Return the call that creates the data loader, or one over steps if requested.

    Args:
        values: the options.
        data: the call that creates the data of a single step.
        model: the expression that names the ONNX model; None if there is none.

    Raises:
        CommandLineError: there is no ONNX model in which to find states.
    """
    options = values[StepOptions]
    if options.steps is None:
        return data
    if model is None:
        raise CommandLineError("--steps requires an ONNX model, whose graph shows the states.")
    states = None if not options.state else [name for name in options.state if name != "none"]
    return call_of(
        "StepLoader",
        (options,),
        model,
        states=states,
        data_loader=None if data == USUAL else data,
    )
