"""The help that fits a screen: the most important options, examples, and where to find the rest."""

from __future__ import annotations

from polygraphy.cli.help import command_help, entry_line, terminal_width, wrap_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.cli.help import Description, Group

MOST_LINES = 40
"""Largest number of lines of a help without a short form."""

_MAIN = ( "--golden", "--reference",
    "--input-shapes", "--load-inputs", "--iterations", "--val-range",
    "--rtol", "--atol", "--check-error-stat", "--validate", "--mark-all",
    "--save-outputs", "--load-outputs", "-o", "--check", "--mode", "--until", "--verify",
    "--fp16", "--fp-to-fp16", "--report", "--gen-script", "-v",
)  # fmt: skip
"""The most important flags of all commands."""

_RUNNERS = "Runners"
"""The group from which most command lines use an option."""

_COLUMN = 28
"""Width of the options in `LINES`. Texts have at most 51 characters, so that 80 columns suffice."""

LINES: dict[str, tuple[tuple[str, str], ...]] = {
    "run": (
        ("MODEL", "Path of the model"),
        ("--onnxrt", "Run the model in ONNX Runtime"),
        ("--onnx", "Run the model in the reference evaluator of onnx"),
        ("--openvino", "Run the model in OpenVINO"),
        ("--torch net.py:FUNCTION", "Run a PyTorch module, or a .pt2 or .pt file"),
        ("--trt", "Run the model in TensorRT: build or load an engine"),
        ("--trt-engine ENGINE", "Also run a saved TensorRT engine"),
        ("--tf, --pluginref", "Run the model in TensorFlow, or plugins in NumPy"),
        ("--runner NAME='FLAGS'", "Run a backend with its own name and options"),
        ("--load-outputs PATH", "Also compare with saved outputs"),
        ("--mark-all", "Compare every tensor, in order of computation"),
        ("--rtol, --atol N|auto", "Tolerances (default: 1e-5); auto: rounding"),
        ("--validate", "Fail if an output contains NaN or infinity"),
        ("--input-shapes x:1x3x8x8", "Shapes of inputs for generated data"),
        ("--val-range LOW,HIGH", "Range of generated data (default: 0 to 1)"),
        ("--iterations N", "Number of inputs to generate (default: 1)"),
        ("--load-inputs PATH", "Use saved inputs, arrays or images"),
        ("--save-outputs PATH", "Save all outputs"),
        ("--fp-to-fp16", "Convert the ONNX model to fp16 first"),
        ("--fp16", "Let TensorRT compute in fp16"),
        ("--report PATH", "Save a report: .html, .json, .md or .xml"),
        ("--gen-script PATH", "Save the program instead of running it"),
        ("-v, -q", "Print more, or less"),
    ),
    "diagnose": (
        ("MODEL", "Path of the ONNX model to diagnose"),
        ("--onnxrt", "Run the model in ONNX Runtime"),
        ("--onnx", "Run the model in the reference evaluator of onnx"),
        ("--openvino", "Run the model in OpenVINO"),
        ("--trt", "Run the model in TensorRT: build or load an engine"),
        ("--runner NAME='FLAGS'", "Run a backend with its own name and options"),
        ("--torch net.py:FUNCTION", "Compare with the PyTorch module or .pt2 file"),
        ("--reference MODEL", "Compare with a correct ONNX model"),
        ("--golden PATH", "Compare with saved outputs or tensors"),
        ("--fp-to-fp16, --to-bf16", "Find the nodes that must stay in fp32"),
        ("--load-inputs PATH", "Use saved inputs, arrays or images"),
        ("--input-shapes x:1x3x8x8", "Shapes of inputs for generated data"),
        ("--val-range LOW,HIGH", "Range of generated data (default: 0 to 1)"),
        ("--iterations N", "Number of inputs to generate"),
        ("--save-culprit DIR", "Save the faulty part as a small model"),
        ("--issue PATH", "Write a bug report for the backend"),
        ("--report PATH", "Save a report: .html, .json, .md or .xml"),
        ("--gen-script PATH", "Save the program instead of running it"),
        ("-v, -q", "Print more, or less"),
    ),
}
"""The short help of commands with many options: options and texts, the most important first."""

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
        "polygraphy diagnose model.onnx --torch net.py:load_model",
        "polygraphy diagnose model.onnx --onnxrt --reference correct.onnx",
        "polygraphy diagnose model.onnx --fp-to-fp16",
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
    """Return the help of a command that fits a screen; the whole help if that fits."""
    width = terminal_width()
    whole_name = command_help(description, width)
    if whole_name.count("\n") <= MOST_LINES:
        return whole_name
    name, usage, text, groups = description
    examples = EXAMPLES.get(name, ())
    ending = [line for words in examples for line in wrap_text(words, width, 2)]
    topics = wrap_text(f"Topics: {', '.join(topics_of(groups))}.", width, 0)
    count = sum(len(entries) for _, _, entries in groups)
    tail = [
        *(["", "Examples:", *ending] if ending else []),
        "",
        *wrap_text(
            f"All {count} options: polygraphy {name} --help. Options of a topic: polygraphy help"
            f" {name} TOPIC.",
            width,
            0,
        ),
        *topics,
    ]
    head = [f"usage: {usage}", "", *wrap_text(text, width, 0), ""]
    room = MOST_LINES - len(head) - len(tail)
    lines = _table_lines(name, groups) if name in LINES else _main_lines(groups, width)
    return "\n".join([*head, *lines[:room], *tail]) + "\n"


def topic_help(description: Description, topic: str) -> str:
    """Return the help about one topic: matching groups, or else matching options.
    The result is empty without a match.
    """
    name, usage, text, groups = description
    word = topic.lower().lstrip("-")
    words = {word, _backend_title(word)}
    chosen = [group for group in groups if any(word in group[0].lower() for word in words)]
    if not chosen:
        chosen = [
            (title, explanation, matching)
            for title, explanation, entries in groups
            if (matching := tuple(entry for entry in entries if word in entry[0].lower()))
        ]
    return command_help((name, usage, text, tuple(chosen))) if chosen else ""


def _backend_title(word: str) -> str:
    """Return the title of a backend by name; other words unchanged."""
    from polygraphy.cli.backends.built_in import backends_by_name

    backend = backends_by_name().get(word.replace("-", "_"))
    return word if backend is None else backend.title.lower()


def topics_of(groups: tuple[Group, ...]) -> list[str]:
    """Return the first words of group titles, without duplicates."""
    return list(dict.fromkeys(title.partition(" ")[0].lower() for title, _, _ in groups))


def _table_lines(name: str, groups: tuple[Group, ...]) -> list[str]:
    """Return the lines of the short help: those in `LINES`, and one per runner of another
    package."""
    listed = {word.rstrip(",") for options, _ in LINES[name] for word in options.split()}
    added = [
        (flags, explained.partition(". ")[0].rstrip("."))
        for title, _, entries in groups
        for flags, explained in entries
        if title == _RUNNERS and listed.isdisjoint(word.rstrip(",") for word in flags.split())
    ]
    return [f"  {options:{_COLUMN - 2}}{text}" for options, text in (*LINES[name], *added)]


def _main_lines(groups: tuple[Group, ...], width: int) -> list[str]:
    """Return a line for each argument, and for each of the most important flags."""
    lines = []
    for title, _, entries in groups:
        for flags, explained in entries:
            spellings = [word.rstrip(",") for word in flags.split()]
            is_main = title == _RUNNERS or any(flag in _MAIN for flag in spellings)
            if flags.startswith("-") and not is_main:
                continue
            lines.append(entry_line(flags, explained, width))
    return lines
