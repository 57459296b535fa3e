"""What a program of `run` does, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.backends.registry import built_in
from polygraphy.cli.backends.runners import RunnerOptions
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.compare import CompareOptions
from polygraphy.cli.shared.model import ModelOptions, split_symbol
from polygraphy.codegen.docstring import quoted
from polygraphy.domain.tensors.naming import enumerated


def summary_of(values: Values, titles: Mapping[str, str], *, compares: bool) -> str:
    """Return the sentence; `titles` are what people call the backends."""
    path = split_symbol(values[ModelOptions].model_file or "")[0]
    model = quoted(path.replace("\\", "/").rpartition("/")[2]) if path else ""
    runners = [each.partition(":")[::2] for each in values[RunnerOptions].runners]
    saved = {name for name, each in built_in().items() if each.text and not each.groups}
    backends = [titles[name] for name, _ in runners if name not in saved]
    engines = [quoted(text) for name, text in runners if name in saved]
    loaded = [quoted(path) for path in values[CompareOptions].load_outputs]
    if not backends and engines:
        model, backends = enumerated(engines), [titles[name] for name, _ in runners[:1]]
        engines = []
    elif not model:
        model = enumerated([quoted(text) for _, text in runners if text])
    if not backends:
        return f"Compare the saved outputs {enumerated(loaded)}."
    twice = [
        f"{name} (twice)" if backends.count(name) == 2 else name for name in dict.fromkeys(backends)
    ]
    where = f"{model} in {enumerated(twice)}"
    if loaded or engines:
        return f"Compare {where} with {enumerated([*engines, *loaded])}."
    return f"Compare {where}." if compares else f"Run {where}."
