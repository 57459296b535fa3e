"""How results of runs are saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.files.codecs.array_codec import LazyArray
from polygraphy.adapters.files.formats.lazy import StoredIteration, is_unread
from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.files.json.content_error import ContentError
from polygraphy.adapters.files.json.json_codec import Decoder, Encoder, all_of
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.facts import ModelFacts


@Encoder.register(IterationResult)
def _encode_iteration(iteration: IterationResult) -> dict[str, Any]:
    facts = iteration.facts
    known = {
        "compute_dtypes": dict(facts.compute_dtypes),
        "bounded": sorted(getattr(facts, "bounded", ())),  # Facts of a runner of somebody's own.
        "ordered": sorted(getattr(facts, "ordered", ())),
    }
    return {
        "outputs": {name: LazyArray(_as_array(output)) for name, output in iteration.items()},
        "runtime": iteration.runtime,
        "runner_name": iteration.runner_name,
        **{name: value for name, value in known.items() if value},
    }


def _as_array(output: Any) -> Any:
    if is_tensor(output):
        return output
    try:
        return np.asarray(output)
    except ValueError as error:
        raise ContentError(
            "an output is a sequence of tensors of different shapes, not a tensor",
            hint="Leave it out of the model's outputs: sequences are not saved.",
        ) from error


@Decoder.register(IterationResult)
def _decode_iteration(fields: dict[str, Any]) -> IterationResult:
    dtypes = fields.get("compute_dtypes") or {}
    facts = ModelFacts(
        {str(name): str(dtype) for name, dtype in dict(dtypes).items()},
        bounded=_names(fields, "bounded"),
        ordered=_names(fields, "ordered"),
    )
    outputs = fields["outputs"]
    kind = StoredIteration if is_unread(outputs) else IterationResult
    return kind(outputs, fields["runtime"], fields["runner_name"], facts=facts)


def _names(fields: dict[str, Any], key: str) -> frozenset[str]:
    return frozenset(str(name) for name in fields.get(key) or ())


@Encoder.register(RunResults)
def _encode_results(results: RunResults) -> dict[str, Any]:
    return {"lst": list(RunResults(results))}  # What was put into its lists may be no iteration.


@Decoder.register(RunResults)
def _decode_results(fields: dict[str, Any]) -> RunResults:
    return RunResults((name, all_of(IterationResult, its)) for name, its in fields["lst"])
