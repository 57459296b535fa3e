"""How tactic replays are saved."""

from __future__ import annotations

from typing import Any

from attrs import fields_dict

from polygraphy.adapters.files.json.json_codec import Decoder, Encoder, all_of
from polygraphy.domain.tactics.tactics import Algorithm, TacticReplay, TensorInfo


@Encoder.register(TensorInfo)
@Encoder.register(Algorithm)
def _encode_value(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in fields_dict(type(value))}


@Decoder.register(TensorInfo)
def _decode_tensor_info(fields: dict[str, Any]) -> TensorInfo:
    return TensorInfo(**_known(TensorInfo, fields))


@Decoder.register(Algorithm)
def _decode_algorithm(fields: dict[str, Any]) -> Algorithm:
    algorithm = Algorithm(**_known(Algorithm, fields))
    all_of(TensorInfo, (*algorithm.inputs, *algorithm.outputs))
    return algorithm


@Encoder.register(TacticReplay, marker="TacticReplayData")
def _encode_replay(replay: TacticReplay) -> dict[str, Any]:
    return {"replay": dict(replay)}


@Decoder.register("TacticReplayData", alias="TacticReplay")
def _decode_replay(fields: dict[str, Any]) -> TacticReplay:
    replay = TacticReplay(fields["replay"])
    all_of(Algorithm, replay.values())
    return replay


def _known(kind: type, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are ours; another version may have saved more."""
    return {name: fields[name] for name in fields_dict(kind)}
