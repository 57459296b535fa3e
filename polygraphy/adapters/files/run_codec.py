"""How results of runs are saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.files.array_codec import LazyArray
from polygraphy.adapters.files.json_codec import Decoder, Encoder, all_of
from polygraphy.adapters.files.torch_codec import is_tensor
from polygraphy.domain.results import IterationResult, RunResults

__all__: list[str] = []


@Encoder.register(IterationResult)
def _encode_iteration(iteration: IterationResult) -> dict[str, Any]:
    return {
        "outputs": {name: LazyArray(_as_array(output)) for name, output in iteration.items()},
        "runtime": iteration.runtime,
        "runner_name": iteration.runner_name,
    }


def _as_array(output: Any) -> Any:
    return output if is_tensor(output) else np.asarray(output)


@Decoder.register(IterationResult)
def _decode_iteration(fields: dict[str, Any]) -> IterationResult:
    return IterationResult(fields["outputs"], fields["runtime"], fields["runner_name"])


@Encoder.register(RunResults)
def _encode_results(results: RunResults) -> dict[str, Any]:
    return {"lst": list(results)}


@Decoder.register(RunResults)
def _decode_results(fields: dict[str, Any]) -> RunResults:
    return RunResults((name, all_of(IterationResult, its)) for name, its in fields["lst"])
