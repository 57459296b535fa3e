"""Records and replays tactics through a timing cache that can be edited, where TensorRT has no
algorithm selectors.

What stands for a layer is the key under which the cache holds its tactic: layers that are alike
share one. A key can only be edited in a cache that holds it, so the cache is kept beside a recorded
replay, in a file of its name with ``.timing-cache`` appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from polygraphy.adapters.tensorrt.build.timing_cache import (
    ensure_timing_cache,
    load_timing_cache,
    save_timing_cache,
)
from polygraphy.adapters.tensorrt.library.logger import capture_log
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tactics import Algorithm, TacticReplay
from polygraphy.logger import G_LOGGER


def cache_beside(replay: Any) -> str | None:
    """Return where the timing cache of a replay file is kept; None for what is no file by path."""
    return f"{replay}.timing-cache" if isinstance(replay, (str, Path)) else None


class CachedTactics:
    """What is done to the timing cache of a build, before and after it."""

    def __init__(
        self,
        cache: str | None,
        wanted: TacticReplay | None = None,
        finish: Callable[[TacticReplay], None] | None = None,
    ) -> None:
        """Set what is replayed, or recorded.

        Args:
            cache: the file of the timing cache that belongs to the replay.
            wanted: the tactics that the build has to choose.
            finish: takes those that it chose.
        """
        self._cache = cache
        self._wanted = wanted
        self._finish = finish

    def attach(self, config: Any) -> None:
        """Take part in the builds of a configuration."""
        config.set_flag(trt.BuilderFlag.EDITABLE_TIMING_CACHE)
        _attached[config] = self

    def before_build(self, config: Any) -> None:
        """Put the tactics that are wanted into the timing cache.

        Raises:
            BackendError: the cache does not hold what they are for, or refuses them.
        """
        if self._wanted is not None and self._cache is not None and Path(self._cache).exists():
            load_timing_cache(config, self._cache)
        ensure_timing_cache(config)
        if self._wanted is not None:
            _edit(config.get_timing_cache(), self._wanted)

    def after_build(self, config: Any) -> None:
        """Hand over the tactics that the build chose.

        Raises:
            BackendError: the timing cache holds none.
        """
        if self._finish is None:
            return
        chosen = _tactics_in(config.get_timing_cache())
        if not chosen:
            raise BackendError(
                "No tactics were recorded: the timing cache of the build holds none.",
                backend="tensorrt",
                hint="TensorRT needs none for networks without alternatives.",
            )
        if self._cache is not None:
            save_timing_cache(config, self._cache)
        self._finish(chosen)


_attached: WeakKeyDictionary[Any, CachedTactics] = WeakKeyDictionary()


@contextmanager
def tactics_kept(config: Any) -> Iterator[None]:
    """Replay before the block, which builds, and record after it, where a configuration asks for
    that.
    """
    tactics = _attached.get(config)
    if tactics is not None:
        tactics.before_build(config)
    yield
    if tactics is not None:
        tactics.after_build(config)


def _tactics_in(cache: Any) -> TacticReplay:
    replay = TacticReplay()
    for key in cache.queryKeys():
        replay.add(str(key), Algorithm(0, cache.query(key).tacticHash, [], []))
    return replay


def _edit(cache: Any, wanted: TacticReplay) -> None:
    known = {str(key) for key in cache.queryKeys()}
    absent = [name for name in wanted if name not in known]
    if absent and len(absent) == len(wanted):
        raise BackendError(
            "The timing cache holds none of the layers of the tactic replay.",
            backend="tensorrt",
            hint="Load the timing cache of the build that was recorded (load_timing_cache,"
            " --load-timing-cache).",
        )
    if absent:
        G_LOGGER.warning(
            "The timing cache does not hold these layers of the tactic replay:"
            f" {', '.join(map(repr, absent))}"
        )
    for name, algorithm in wanted.items():
        if name in known:
            _set(cache, name, algorithm)


def _set(cache: Any, name: str, algorithm: Algorithm) -> None:
    key = trt.TimingCacheKey.parse(name)
    time = cache.query(key).timingMSec
    with capture_log() as reasons:
        if not cache.update(key, trt.TimingCacheValue(algorithm.tactic, time)):
            raise reasons.failed(f"take the tactic {algorithm.tactic} for {name}")
