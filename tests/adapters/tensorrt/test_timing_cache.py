"""Timing caches: merged with what others wrote, under a lock, whole or not at all."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

from polygraphy.adapters.tensorrt.engine import timing_cache
from polygraphy.adapters.tensorrt.engine.timing_cache import (
    ensure_timing_cache,
    load_timing_cache,
    save_timing_cache,
)
from polygraphy.backend.trt import CreateConfig, EngineBytesFromNetwork, NetworkFromOnnxPath
from polygraphy.domain.errors import BackendError, FileError


class Cache:
    """Stands for an ITimingCache: a set of letters; one of another version begins with ``!``."""

    def __init__(self, content: bytes) -> None:
        self.letters = set(content.decode())

    def combine(self, other: Cache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        if "!" in other.letters:
            return False
        self.letters |= other.letters
        return True

    def serialize(self) -> bytes:
        return "".join(sorted(self.letters)).encode()


class Config:
    """Stands for an IBuilderConfig, as far as timing caches go."""

    def __init__(self) -> None:
        self.cache: Cache | None = None

    def create_timing_cache(self, content: bytes) -> Cache:
        return Cache(content)

    def set_timing_cache(self, cache: Cache, ignore_mismatch: bool) -> bool:
        if "!" in cache.letters:
            return False
        self.cache = cache
        return True

    def get_timing_cache(self) -> Cache | None:
        return self.cache


def config_with(content: bytes) -> Config:
    config = Config()
    config.cache = Cache(content)
    return config


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "timing.cache"
    save_timing_cache(config_with(b"ab"), path)
    config = Config()
    load_timing_cache(config, str(path))
    assert config.cache is not None
    assert config.cache.letters == {"a", "b"}


def test_a_missing_file_is_an_empty_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config()
    load_timing_cache(config, tmp_path / "none.cache")
    assert config.cache is not None
    assert "does not exist" in capsys.readouterr().out


def test_no_file_means_no_cache() -> None:
    config = Config()
    load_timing_cache(config, None)
    assert config.cache is None
    ensure_timing_cache(config)
    first = config.cache
    ensure_timing_cache(config)
    assert config.cache is first is not None


def test_saving_keeps_what_others_saved_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "timing.cache"
    path.write_bytes(b"xy")
    save_timing_cache(config_with(b"ab"), path)
    assert path.read_bytes() == b"abxy"


def test_a_cache_of_another_version_is_replaced_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "timing.cache"
    path.write_bytes(b"!x")
    with pytest.raises(
        BackendError, match=r"use the timing cache .*timing\.cache.*a different version"
    ):
        load_timing_cache(Config(), path)
    save_timing_cache(config_with(b"ab"), path)
    assert path.read_bytes() == b"ab"
    assert "is replaced, because" in capsys.readouterr().out


def test_open_files_are_written_from_their_start() -> None:
    stream = io.BytesIO(b"a much longer content")
    save_timing_cache(config_with(b"ab"), stream)
    assert stream.getvalue() == b"ab"
    config = Config()
    load_timing_cache(config, stream)
    assert config.cache is not None
    assert config.cache.letters == {"a", "b"}


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "timing.cache"
    letters = "abcdefgh"
    threads = [
        threading.Thread(target=save_timing_cache, args=(config_with(each.encode()), path))
        for each in letters
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() == letters.encode()


def test_a_lock_that_is_never_given_back_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filelock = pytest.importorskip("filelock")
    monkeypatch.setattr(timing_cache, "_SECONDS_TO_WAIT", 0.05)
    path = tmp_path / "timing.cache"
    with filelock.FileLock(f"{path}.lock"), pytest.raises(FileError, match="locked by another"):
        save_timing_cache(config_with(b"ab"), path)
    assert not path.exists()


def test_a_configuration_without_a_cache_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="has none"):
        save_timing_cache(Config(), tmp_path / "timing.cache")


def test_a_build_saves_and_loads_one(rtx: Any, mlp_path: str, tmp_path: Path) -> None:
    path = tmp_path / "timing.cache"
    for _build in range(2):
        EngineBytesFromNetwork(
            NetworkFromOnnxPath(mlp_path),
            CreateConfig(load_timing_cache=str(path)),
            save_timing_cache=str(path),
        )()
        assert path.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty: starting with an empty one"),
        (bytes(range(100)), "is not used: Failed to deserialize"),
    ],
    ids=["empty", "random"],
)
def test_what_is_no_cache_is_not_said_to_be_loaded(
    rtx: Any,
    mlp_path: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    said: str,
) -> None:
    path = tmp_path / "timing.cache"
    path.write_bytes(content)
    builder, network, _parser = NetworkFromOnnxPath(mlp_path)()
    CreateConfig(load_timing_cache=str(path))(builder, network)
    caught = capsys.readouterr()
    shown = " ".join((caught.out + caught.err).split())
    assert said in shown
    assert "Loaded the timing cache" not in shown
    assert "[E]" not in shown  # TensorRT goes on without the cache.


def test_what_is_a_cache_is_said_to_be_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "timing.cache"
    path.write_bytes(b"ab")
    load_timing_cache(Config(), path)
    assert "Loaded the timing cache" in capsys.readouterr().out
