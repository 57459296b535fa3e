"""The help that fits a screen: what most people need, examples, and where the rest is."""

from __future__ import annotations

from polygraphy.cli.help import command_help, entry_line, terminal_width, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.cli.help import Description, Group

MOST_LINES = 40
"""Lines of a help that needs no other."""

_MAIN = ( "--golden", "--reference",
    "--input-shapes", "--load-inputs", "--iterations", "--val-range",
    "--rtol", "--atol", "--check-error-stat", "--validate", "--mark-all",
    "--save-outputs", "--load-outputs", "-o", "--check", "--mode", "--until", "--verify",
    "--fp16", "--fp-to-fp16", "--report", "--gen-script", "-v",
)  # fmt: skip
"""Flags that most people need, of whatever command has them."""

_RUNNERS = "Runners"
"""The group of options of which most people need any."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "polygraphy run model.onnx --onnxrt --onnx --iterations 10",
        "polygraphy run model.onnx --onnxrt --mark-all --load-outputs golden.json --rtol 1e-3",
        "polygraphy run model.onnx --onnxrt --trt --fp16 --rtol 1e-2",
    ),
    "convert": (
        "polygraphy convert model.onnx --fp-to-fp16 --verify -o half.onnx",
        "polygraphy convert model.onnx --fp16 -o model.engine",
        "polygraphy convert model.pb --convert-to onnx -o model.onnx",
    ),
    "debug build": (
        "polygraphy debug build model.onnx --until 10 --save-tactics t.json --artifacts t.json"
        " --check polygraphy run polygraphy_debug.engine --trt --load-outputs golden.json",
    ),
    "debug precision": (
        "polygraphy debug precision model.onnx --fp16 --golden-outputs golden.json --rtol 1e-2",
    ),
    "debug reduce": (
        "polygraphy debug reduce model.onnx -o reduced.onnx"
        " --check polygraphy run polygraphy_debug.onnx --onnxrt --onnx",
    ),
    "diagnose": (
        "polygraphy diagnose model.onnx --onnxrt --onnx",
        "polygraphy diagnose model.onnx --onnxrt --fp-to-fp16",
    ),
    "inspect model": (
        "polygraphy inspect model model.onnx --show layers --stats",
        "polygraphy inspect model model.onnx --visual",
    ),
    "surgeon extract": (
        "polygraphy surgeon extract model.onnx --inputs x:auto:auto --outputs y:auto -o part.onnx",
    ),
    "surgeon sanitize": ("polygraphy surgeon sanitize model.onnx --fold-constants -o folded.onnx",),
    "check lint": ("polygraphy check lint model.onnx",),
}


def short_help(description: Description) -> str:
    """Return the help of a command that fits a screen: all of it, if that does."""
    width = terminal_width()
    whole = command_help(description, width)
    if whole.count("\n") <= MOST_LINES:
        return whole
    name, usage, text, groups = description
    examples = EXAMPLES.get(name, ())
    ending = [line for words in examples for line in wrapped(words, width, 2)]
    topics = wrapped(f"Topics: {', '.join(topics_of(groups))}.", width, 0)
    count = sum(len(entries) for _, _, entries in groups)
    tail = [
        *(["", "Examples:", *ending] if ending else []),
        "",
        *wrapped(
            f"All {count} options: polygraphy {name} --help. Those of a topic: polygraphy help"
            f" {name} TOPIC.",
            width,
            0,
        ),
        *topics,
    ]
    head = [f"usage: {usage}", "", *wrapped(text, width, 0), ""]
    room = MOST_LINES - len(head) - len(tail)
    return "\n".join([*head, *_main_lines(groups, width)[:room], *tail]) + "\n"


def topic_help(description: Description, topic: str) -> str:
    """Return the help about one topic: the groups of options whose title has the word, or else the
    options that do; empty where there is none.
    """
    name, usage, text, groups = description
    word = topic.lower().lstrip("-")
    words = {word, _called(word)}
    chosen = [group for group in groups if any(each in group[0].lower() for each in words)]
    if not chosen:
        chosen = [
            (title, explanation, found)
            for title, explanation, entries in groups
            if (found := tuple(each for each in entries if word in each[0].lower()))
        ]
    return command_help((name, usage, text, tuple(chosen))) if chosen else ""


def _called(word: str) -> str:
    """Return what people call the backend of a name, as titles of groups do; else the word."""
    from polygraphy.cli.backends.built_in import built_in

    backend = built_in().get(word.replace("-", "_"))
    return word if backend is None else backend.title.lower()


def topics_of(groups: tuple[Group, ...]) -> list[str]:
    """Return the first words of the titles, each once."""
    return list(dict.fromkeys(title.partition(" ")[0].lower() for title, _, _ in groups))


def _main_lines(groups: tuple[Group, ...], width: int) -> list[str]:
    """Return a line for each argument, and for each flag that most people need."""
    lines = []
    for title, _, entries in groups:
        for flags, explained in entries:
            spellings = [word.rstrip(",") for word in flags.split()]
            is_main = title == _RUNNERS or any(flag in _MAIN for flag in spellings)
            if flags.startswith("-") and not is_main:
                continue
            lines.append(entry_line(flags, explained, width))
    return lines
