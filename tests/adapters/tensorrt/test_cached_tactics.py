"""Tactics that are kept in a timing cache, which is faked: no build here fills one."""

from __future__ import annotations

import json
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
    replay_and_record_tactics,
)
from polygraphy.adapters.tensorrt.library.module import use_module
from polygraphy.domain.errors import BackendError
from tests.support.rtx import rtx

__all__ = ["rtx"]


class Cache:
    """A timing cache that can be edited: tactics and times by key, and nothing new."""

    def __init__(self, content: bytes) -> None:
        self.held: dict[str, list[float]] = json.loads(content) if content else {}
        self.refuses: int | None = None

    def queryKeys(self) -> list[str]:
        return list(self.held)

    def query(self, key: str) -> Any:
        tactic, time = self.held.get(key, (2**64 - 1, -1.0))
        return SimpleNamespace(tacticHash=tactic, timingMSec=time)

    def update(self, key: str, value: Any) -> bool:
        if key not in self.held or value.tacticHash == self.refuses:
            return False
        self.held[key] = [value.tacticHash, value.timingMSec]
        return True

    def combine(self, other: Cache, ignore_mismatch: bool) -> bool:
        self.held.update(other.held)
        return True

    def serialize(self) -> bytes:
        return json.dumps(self.held).encode()


class Config:
    """A builder configuration that has a timing cache."""

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self.cache: Cache | None = None

    def set_flag(self, flag: str) -> None:
        self.flags.add(flag)

    def create_timing_cache(self, content: bytes) -> Cache:
        return Cache(bytes(content))

    def set_timing_cache(self, cache: Cache, ignore_mismatch: bool) -> bool:
        self.cache = cache
        return True

    def get_timing_cache(self) -> Cache | None:
        return self.cache


@pytest.fixture(autouse=True)
def trt() -> Iterator[Any]:
    module = SimpleNamespace(
        __name__="tensorrt",
        __version__="11.4.0",
        BuilderFlag=SimpleNamespace(EDITABLE_TIMING_CACHE="editable"),
        TimingCacheKey=SimpleNamespace(parse=str),
        TimingCacheValue=lambda tactic, time: SimpleNamespace(tacticHash=tactic, timingMSec=time),
    )
    with use_module(module):
        yield module


def build(selector: Any, measured: dict[str, list[float]] | None = None) -> dict[str, Any]:
    """Build as TensorRT does: choose what the cache holds, and add what was measured."""
    config = Config()
    selector.attach(config)
    assert config.flags == {"editable"}
    with replay_and_record_tactics(config):
        assert config.cache is not None
        config.cache.held = {**(measured or {}), **config.cache.held}
    return dict(config.cache.held)


def test_what_is_recorded_is_replayed(tmp_path: Path) -> None:
    path = str(tmp_path / "replay.json")
    build(TacticRecorder(path), {"0xaa": [7, 0.5], "0xbb": [8, 0.25]})
    replay = TacticReplayData.load(path)
    assert {key: one.tactic for key, one in replay.items()} == {"0xaa": 7, "0xbb": 8}
    replay["0xaa"] = Algorithm(0, 9, [], [])
    replay.save(path)
    chosen = build(TacticReplayer(path), {"0xaa": [1, 0.1], "0xcc": [2, 0.1]})
    assert chosen == {"0xaa": [9, 0.5], "0xbb": [8, 0.25], "0xcc": [2, 0.1]}


def test_nothing_to_record_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    with pytest.raises(BackendError, match="No tactics were recorded"):
        build(TacticRecorder(str(path)))
    assert list(tmp_path.iterdir()) == []


def test_a_replay_without_its_cache_is_an_error(tmp_path: Path) -> None:
    replay = TacticReplayData({"0xaa": Algorithm(0, 9, [], [])})
    with pytest.raises(BackendError, match="contains none of the layers"):
        build(TacticReplayer(replay))


def test_a_tactic_that_the_cache_refuses_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "r.json")
    build(TacticRecorder(path), {"0xaa": [7, 0.5]})
    config, selector = Config(), TacticReplayer(path)
    selector.attach(config)
    cache = Cache(b'{"0xaa": [1, 0.1]}')
    cache.refuses = 7
    config.create_timing_cache = lambda content: cache  # type: ignore[method-assign]
    with (
        pytest.raises(BackendError, match="take the tactic 7 for 0xaa"),
        replay_and_record_tactics(config),
    ):
        raise AssertionError("there is no build")


def test_other_configurations_are_left_alone() -> None:
    config = Config()
    with replay_and_record_tactics(config):
        pass
    assert config.cache is None


def test_excluding_takes_selectors() -> None:
    replay = TacticReplayData({"0xaa": Algorithm(0, 9, [], [])})
    for made in (
        lambda: TacticRecorder(replay, exclude=replay),
        lambda: TacticReplayer(exclude=replay),
    ):
        with pytest.raises(BackendError, match="Excluding tactics requires algorithm selectors"):
            made()


def test_rtx_keeps_no_tactics(rtx: Any) -> None:
    with pytest.raises(BackendError, match="Recording tactics requires algorithm selectors"):
        TacticRecorder(TacticReplayData())
