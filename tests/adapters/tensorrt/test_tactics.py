"""Recorded and replayed tactics, with a TensorRT that only calls the selectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from polygraphy.adapters.tensorrt.engine.tactics import (
    Algorithm,
    TacticRecorder,
    TacticReplayData,
    TacticReplayer,
)
from polygraphy.adapters.tensorrt.library.module import raise_kept_errors, use_module
from polygraphy.domain.errors import BackendError, FileError, UsageError
from tests.support.build_callbacks import CallingTensorRT, choice

LAYERS = {"conv": [choice(1), choice(2), choice(3)], "fc": [choice(7), choice(7, dtype="HALF")]}


@pytest.fixture
def trt() -> Iterator[CallingTensorRT]:
    with use_module(CallingTensorRT()) as module:
        yield module


def algorithm(layer: str, index: int) -> Algorithm:
    context = SimpleNamespace(name=layer, num_inputs=1, num_outputs=1)
    return Algorithm.from_trt(context, LAYERS[layer][index])


def finish(selector: Any) -> None:
    raise_kept_errors(SimpleNamespace(algorithm_selector=selector))


def test_what_is_recorded_is_chosen_again(trt: CallingTensorRT, tmp_path: Path) -> None:
    path = str(tmp_path / "replay.json")
    recorder = TacticRecorder(path)
    assert trt.choose(recorder, LAYERS) == {"conv": 3, "fc": 7}
    finish(recorder)
    recorded = TacticReplayData.load(path)
    assert recorded == {"conv": algorithm("conv", 2), "fc": algorithm("fc", 1)}
    turned = {name: choices[::-1] for name, choices in LAYERS.items()}
    replayer = TacticReplayer(path)
    assert trt.choose(replayer, turned) == {"conv": 3, "fc": 7}
    finish(replayer)


def test_a_replay_is_recorded_into(trt: CallingTensorRT) -> None:
    replay = TacticReplayData()
    trt.choose(TacticRecorder(replay), LAYERS)
    assert list(replay) == ["conv", "fc"]


def test_layers_without_a_recorded_tactic_are_left_to_tensorrt(trt: CallingTensorRT) -> None:
    replayer = TacticReplayer(TacticReplayData({"conv": algorithm("conv", 0)}))
    assert trt.choose(replayer, LAYERS) == {"conv": 1, "fc": 7}
    finish(replayer)


def test_a_tactic_that_is_not_offered_is_an_error(trt: CallingTensorRT) -> None:
    other = Algorithm(1, 99, [], [])
    replayer = TacticReplayer(TacticReplayData({"conv": other, "fc": algorithm("fc", 0)}))
    trt.choose(replayer, LAYERS)
    with pytest.raises(BackendError, match=r"Layer 'conv': TensorRT does not offer.*Tactic: 99"):
        finish(replayer)


def test_what_was_chosen_in_the_end_is_checked(trt: CallingTensorRT) -> None:
    replayer = TacticReplayer(TacticReplayData({"conv": algorithm("conv", 0)}))
    context = SimpleNamespace(name="conv", num_inputs=1, num_outputs=1)
    replayer.report_algorithms([context], [choice(3)])
    with pytest.raises(BackendError, match=r"TensorRT chose.*Tactic: 3"):
        finish(replayer)


def test_a_replay_of_another_network_is_an_error(trt: CallingTensorRT) -> None:
    replayer = TacticReplayer(TacticReplayData({"other": algorithm("conv", 0)}))
    trt.choose(replayer, LAYERS)
    with pytest.raises(BackendError, match="contains none of the layers"):
        finish(replayer)


def test_excluded_tactics_are_not_chosen(trt: CallingTensorRT, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    TacticReplayData({"conv": algorithm("conv", 2)}).save(str(path))
    more = TacticReplayData({"conv": algorithm("conv", 1)})
    replayer = TacticReplayer(exclude=[str(path), more])
    assert trt.choose(replayer, LAYERS) == {"conv": 1, "fc": 7}
    finish(replayer)
    recorded = TacticReplayData()
    assert trt.choose(TacticRecorder(recorded, exclude=str(path)), LAYERS)["conv"] == 2
    assert recorded["conv"] == algorithm("conv", 1)


def test_the_layout_of_tensors_belongs_to_a_tactic(trt: CallingTensorRT) -> None:
    excluded = TacticReplayData({"fc": algorithm("fc", 1)})
    recorded = TacticReplayData()
    trt.choose(TacticRecorder(recorded, exclude=excluded), LAYERS)
    assert recorded["fc"] == algorithm("fc", 0)


def test_excluding_everything_is_an_error(trt: CallingTensorRT) -> None:
    every = [TacticReplayData({"fc": algorithm("fc", index)}) for index in range(2)]
    replayer = TacticReplayer(exclude=every)
    trt.choose(replayer, LAYERS)
    with pytest.raises(BackendError, match=r"Layer 'fc': all 2 tactics"):
        finish(replayer)


def test_mistakes_are_reported_at_once(trt: CallingTensorRT, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Nothing to replay"):
        TacticReplayer()
    with pytest.raises(FileError, match="does not exist"):
        TacticReplayer(str(tmp_path / "missing.json"))


def test_where_there_are_no_selectors_it_is_said() -> None:
    with use_module(CallingTensorRT(has_selectors=False)):
        for made in (TacticRecorder, TacticReplayer):
            with pytest.raises(BackendError, match="algorithm selectors"):
                made(TacticReplayData())
