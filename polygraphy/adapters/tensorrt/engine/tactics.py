"""Records the tactics of a build, and makes another build choose or avoid them.

It uses algorithm selectors if TensorRT has them, else an editable timing cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union
from weakref import WeakKeyDictionary

from polygraphy.adapters.tensorrt.engine.timing_cache import (
    ensure_timing_cache,
    load_timing_cache,
    save_timing_cache,
)
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import capture_log, guard_callback, is_rtx, trt
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.ports import PathOrFile
from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo
from polygraphy.logger import G_LOGGER

__all__ = ["Algorithm", "TacticRecorder", "TacticReplayData", "TacticReplayer", "TensorInfo"]


def cache_beside(replay: Any) -> str | None:
    """Return the path of the timing cache that belongs to a replay file; None if it has no path."""
    return f"{replay}.timing-cache" if isinstance(replay, (str, Path)) else None


class CachedTactics:
    """Replays or records tactics through the timing cache of a build."""

    def __init__(
        self,
        cache: str | None,
        wanted: TacticReplay | None = None,
        finish: Callable[[TacticReplay], None] | None = None,
    ) -> None:
        """Set the tactics to replay, or the function that receives the recorded ones.

        Args:
            cache: the file of the timing cache that belongs to the replay.
            wanted: the tactics that the build must choose.
            finish: called with the chosen tactics.
        """
        self._cache = cache
        self._wanted = wanted
        self._finish = finish

    def attach(self, config: Any) -> None:
        """Make the next builds of a configuration replay or record tactics."""
        config.set_flag(trt.BuilderFlag.EDITABLE_TIMING_CACHE)
        _attached[config] = self

    def write_wanted_tactics(self, config: Any) -> None:
        """Write the wanted tactics into the timing cache before a build.

        Raises:
            BackendError: the cache lacks entries for the tactics, or rejects them.
        """
        if self._wanted is not None and self._cache is not None and Path(self._cache).exists():
            load_timing_cache(config, self._cache)
        ensure_timing_cache(config)
        if self._wanted is not None:
            _write_tactics(config.get_timing_cache(), self._wanted)

    def collect_tactics(self, config: Any) -> None:
        """Send the tactics that the build chose to the recorder.

        Raises:
            BackendError: the timing cache contains none.
        """
        if self._finish is None:
            return
        chosen = _tactics_in(config.get_timing_cache())
        if not chosen:
            raise BackendError(
                "No tactics were recorded: the timing cache of the build contains none.",
                backend="tensorrt",
                hint="TensorRT records none for networks without alternatives.",
            )
        if self._cache is not None:
            save_timing_cache(config, self._cache)
        self._finish(chosen)


_attached: WeakKeyDictionary[Any, CachedTactics] = WeakKeyDictionary()


@contextmanager
def replay_and_record_tactics(config: Any) -> Iterator[None]:
    """Replay tactics before the build in the block and record them after it, as configured."""
    tactics = _attached.get(config)
    if tactics is not None:
        tactics.write_wanted_tactics(config)
    yield
    if tactics is not None:
        tactics.collect_tactics(config)


def _tactics_in(cache: Any) -> TacticReplay:
    """Return the tactics in a timing cache."""
    replay = TacticReplay()
    for key in cache.queryKeys():
        replay.add(str(key), Algorithm(0, cache.query(key).tacticHash, [], []))
    return replay


def _write_tactics(cache: Any, wanted: TacticReplay) -> None:
    """Write the wanted tactics into a timing cache."""
    querykeys = {str(key) for key in cache.queryKeys()}
    absent = [name for name in wanted if name not in querykeys]
    if absent and len(absent) == len(wanted):
        raise BackendError(
            "The timing cache contains none of the layers of the tactic replay.",
            backend="tensorrt",
            hint="Load the timing cache of the build that was recorded (load_timing_cache,"
            " --load-timing-cache).",
        )
    if absent:
        G_LOGGER.warning(
            "The timing cache lacks these layers of the tactic replay:"
            f" {', '.join(map(repr, absent))}"
        )
    for name, algorithm in wanted.items():
        if name in querykeys:
            _write_tactic(cache, name, algorithm)


def _write_tactic(cache: Any, name: str, algorithm: Algorithm) -> None:
    """Write the tactic of one layer into a timing cache."""
    key = trt.TimingCacheKey.parse(name)
    time = cache.query(key).timingMSec
    with capture_log() as reasons:
        if not cache.update(key, trt.TimingCacheValue(algorithm.tactic, time)):
            raise reasons.error_for(f"take the tactic {algorithm.tactic} for {name}")


TacticReplayData = TacticReplay
Replay = Union[TacticReplay, PathOrFile]
Exclusions = Union[Replay, "Sequence[Replay]", None]


def TacticRecorder(record: Replay, exclude: Exclusions = None) -> Any:
    """Return an algorithm selector that records which tactic TensorRT chooses for each layer.

    Args:
        record: the destination of the choices: a replay, or the path of a file, or an open file,
            which is written after the build.
        exclude: replays (or files of such) whose tactics must not be chosen.

    Raises:
        BackendError: this TensorRT can neither select tactics nor edit timing caches.
    """
    edits_cache = _uses_timing_cache("Recording tactics", exclude)
    replay = record if isinstance(record, TacticReplay) else TacticReplay()

    def finish(chosen: TacticReplay) -> None:
        """Add the chosen tactics to the replay, and save it to its file."""
        replay.update(chosen)
        if not isinstance(record, TacticReplay):
            replay.save(record)

    if edits_cache:
        return CachedTactics(cache_beside(record), finish=finish)
    return _selector_class()(_Rules(exclude=_load_exclusions(exclude)), finish)


def TacticReplayer(replay: Replay | None = None, exclude: Exclusions = None) -> Any:
    """Return an algorithm selector that makes TensorRT choose the tactics of an earlier build.

    TensorRT chooses the tactics of layers that are not in the replay.

    Args:
        replay: the tactics to choose: a replay, a path, or an open file.
        exclude: replays (or files of such) whose tactics must not be chosen.

    Raises:
        BackendError: this TensorRT can neither select tactics nor edit timing caches. A build
            raises it if TensorRT does not offer the tactic of a layer, or offers only excluded
            tactics, or if the network has no layer of the replay.
        FileError: a file is missing, or is not a replay.
        UsageError: neither is set.
    """
    edits_cache = _uses_timing_cache("Replaying tactics", exclude)
    if replay is None and exclude is None:
        raise UsageError("Nothing to replay or exclude.", hint="Pass a tactic replay.")
    wanted = None if replay is None else _load_replay(replay)
    if edits_cache:
        return CachedTactics(cache_beside(replay), wanted=wanted)
    rules = _Rules(wanted, _load_exclusions(exclude))
    return _selector_class()(rules, rules.check_all_met)


def _uses_timing_cache(doing: str, exclude: Exclusions) -> bool:
    """Return whether tactics are replayed through the timing cache, because there are no algorithm
    selectors.

    Raises:
        BackendError: this TensorRT cannot control tactics; or tactics are excluded, which requires
            algorithm selectors.
    """
    caps = capabilities()
    if caps.has("algorithm_selector"):
        return False
    if is_rtx() or not caps.has("editable_timing_cache"):
        caps.require("algorithm_selector", doing)
    if exclude is not None:
        caps.require("algorithm_selector", "Excluding tactics")
    return True


class _Rules:
    """The rules that decide which offered tactics can be chosen."""

    def __init__(
        self, wanted: TacticReplay | None = None, exclude: Sequence[TacticReplay] = ()
    ) -> None:
        """Set the replay to follow, and the replays to exclude."""
        self._wanted = wanted
        self._exclude = exclude

    def select_tactics(self, layer: str, offered: Sequence[Algorithm]) -> list[int]:
        """Return the positions of the tactics that can be chosen for a layer.

        Raises:
            BackendError: there is none.
        """
        wanted = None if self._wanted is None else self._wanted.get(layer)
        if wanted is not None:
            if wanted not in offered:
                raise BackendError(
                    f"Layer {layer!r}: TensorRT does not offer the tactic of the replay,"
                    f" {wanted}. It offers {len(offered)} different tactics.",
                    backend="tensorrt",
                    hint="A replay requires the same network, TensorRT and GPU: record a new one.",
                )
            return [offered.index(wanted)]
        if self._wanted is not None:
            G_LOGGER.verbose(f"Layer {layer!r} is not in the tactic replay: TensorRT chooses.")
        excluded = [replay[layer] for replay in self._exclude if layer in replay]
        allowed = [index for index, choice in enumerate(offered) if choice not in excluded]
        if offered and not allowed:
            raise BackendError(
                f"Layer {layer!r}: all {len(offered)} tactics that TensorRT offers are excluded.",
                backend="tensorrt",
                hint="Exclude fewer of them.",
            )
        return allowed

    def check_all_met(self, chosen: TacticReplay) -> None:
        """Raise BackendError if the chosen tactics differ from the replayed ones.

        Raises:
            BackendError: a layer got a different tactic, or none of the layers is in the network.
        """
        wanted = self._wanted or TacticReplay()
        absent = [layer for layer in wanted if layer not in chosen]
        if wanted and len(absent) == len(wanted):
            raise BackendError(
                "The network contains none of the layers of the tactic replay.",
                backend="tensorrt",
                hint="Record a replay of this network.",
            )
        if absent:
            G_LOGGER.warning(
                "The network lacks these layers of the tactic replay:"
                f" {', '.join(map(repr, absent))}"
            )
        for layer, algorithm in wanted.items():
            if layer in chosen and chosen[layer] != algorithm:
                raise BackendError(
                    f"Layer {layer!r}: TensorRT chose {chosen[layer]}, not the tactic of the"
                    f" replay, {algorithm}.",
                    backend="tensorrt",
                )


def _load_replay(replay: Replay) -> TacticReplay:
    """Return the tactics of a replay, loaded if it is a file."""
    return replay if isinstance(replay, TacticReplay) else TacticReplay.load(replay)


def _load_exclusions(exclude: Exclusions) -> list[TacticReplay]:
    """Return the replays whose tactics are excluded, loaded if they are files."""
    if exclude is None:
        return []
    several: Any = exclude if isinstance(exclude, (list, tuple)) else [exclude]
    return [_load_replay(value) for value in several]


def _selector_class() -> Any:
    """Return the class of algorithm selectors, derived from that of the TensorRT module in use."""

    class Selector(trt.IAlgorithmSelector):  # type: ignore[misc]
        """Lets TensorRT choose among the tactics that some rules allow."""

        def __init__(self, rules: _Rules, finish: Callable[[TacticReplay], None]) -> None:
            """Set the rules, and the function that receives the chosen tactics."""
            trt.IAlgorithmSelector.__init__(self)
            self._rules = rules
            self._finish = finish

        @guard_callback([])
        def select_algorithms(self, context: Any, choices: Any) -> list[int]:
            """Return the positions of the allowed tactics; called by TensorRT."""
            offered = [Algorithm.from_trt(context, choice) for choice in choices]
            return self._rules.select_tactics(context.name, offered)

        @guard_callback(None)
        def report_algorithms(self, contexts: Any, choices: Any) -> None:
            """Record the chosen tactics; called by TensorRT at the end of the build."""
            chosen = TacticReplay()
            for context, choice in zip(contexts, choices):
                chosen.add(context.name, Algorithm.from_trt(context, choice))
            self._finish(chosen)

    return Selector
