"""A backend whose crashes do no harm.

A library that does not survive a fork works in a process that was started anew and stays warm, as
a `WarmParty`; the others in this process, and where they may crash, in a fork of it.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from itertools import islice
from typing import Any, TypeVar

from attrs import field, frozen

from polygraphy.domain.diagnosis.foreign_errors import foreign_errors, original_error
from polygraphy.domain.diagnosis.words import errors
from polygraphy.domain.errors import BackendError, PolygraphyException, UsageError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.machine import cores
from polygraphy.ports.running import (
    KeptObject,
    WarmProcess,
    call_isolated,
    is_fork_safe,
    warm_process,
)

T = TypeVar("T")

_AT_ONCE = 16
"""Guesses per process, because starting one takes milliseconds; guesses beside a crash are
repeated."""
_LEAST_MEMORY, _CORE_MEMORY = 1 << 30, 32 << 20
"""Bytes that a process may allocate besides tensors and weights, and for each thread of a backend.
"""
_WEIGHT_COPIES, _GROWTH = 8, 8
"""Bytes that guesses may allocate, as multiples of those of the weights (the changed model, its
bytes, and what the backend makes of them) and of all tensors: a changed number can make a tensor
that fills the machine. Chosen, not measured."""
_FACTORS = (1, 2, 4, 8)
"""Multiples of that memory that are tried with the unchanged model."""
_LEAST_SECONDS, TIMES = 60.0, 20
"""A guess is stopped after these seconds only if it also takes this multiple of the time of the
unchanged model, measured at that moment: on a busy machine, both take longer."""


@frozen
class TrialLimits:
    """What a guess may take.

    Attributes:
        usual: a run that is known to end, and takes about as long as the test of a guess; None if
            there is none.
        memory: the most bytes that a guess may allocate.
        on_stop: is called for each guess that is stopped because it does not end.
        fitting: by backend, the memory in which the usual run was seen to end; None for no limit.
    """

    usual: Callable[[], object] | None = None
    memory: int | None = None
    on_stop: Callable[[], object] = lambda: None
    fitting: dict[str, int | None] = field(factory=dict, eq=False)

    def memory_for(self, party: str | SuspectedParty) -> int | None:
        """Return the bytes that a guess may allocate; more than the limit if not even the unchanged
        model ends within it, as where a backend starts many threads."""
        if self.memory is None or self.usual is None or isinstance(party, WarmParty):
            return self.memory
        name = party if isinstance(party, str) else party.name
        if name not in self.fitting:
            self.fitting[name] = None
            for factor in _FACTORS:
                try:
                    _run_within(_LEAST_SECONDS, self.usual, party, factor * self.memory)
                except BackendError:
                    continue
                self.fitting[name] = factor * self.memory
                break
        return self.fitting[name]


_ANY = TrialLimits()


def trial_memory(tensors: int, weights: int, budget: int | None) -> int:
    """Return the bytes that a changed model may allocate.

    Args:
        tensors: the bytes of all tensors of the unchanged model.
        weights: the bytes of its weights.
        budget: the limit in bytes for all tensors, if it is set.
    """
    room = _GROWTH * tensors if budget is None else min(_GROWTH * tensors, budget)
    return _LEAST_MEMORY + cores() * _CORE_MEMORY + _WEIGHT_COPIES * weights + room


class CarefulParty:
    """A party that performs each operation in a separate process; implements the port
    `SuspectedParty`.

    It refuses a model when the model runs, not when it is loaded.
    """

    def __init__(self, party: SuspectedParty) -> None:
        """Wrap a party."""
        self.name = party.name
        self.backend = party.backend
        self.passes = party.passes
        self.rewrites = party.rewrites
        self.levels = party.levels
        self.settings = party.settings
        self.options = party.options
        self._party = party

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return a function that loads and runs a model; see the port."""
        return lambda feed: run_in_subprocess(
            lambda: self._party.load(model, plain=plain, without=without)(feed), self._party
        )

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the graph that is executed, None if the backend does not expose it.
        See the port."""
        return run_in_subprocess(
            lambda: self._party.runtime_graph(model, without=without, level=level), self._party
        )

    def remedy(self, *, plain: bool, without: Collection[str]) -> Mapping[str, Any]:
        """Return the options that disable rewrites; see the port."""
        return self._party.remedy(plain=plain, without=without)


class WarmParty:
    """A party whose library runs in a persistent process; implements the ports `SuspectedParty` and
    `LoweringParty`. After a crash, which is an error, the process restarts and reloads what is
    needed."""

    def __init__(self, party: SuspectedParty, process: WarmProcess) -> None:
        """Wrap a party that runs in a process."""
        self.name = party.name
        self.backend = party.backend
        self.passes = party.passes
        self.rewrites = party.rewrites
        self.levels = party.levels
        self.options = party.options
        self.uses_device = getattr(party, "uses_device", False)
        self._source = party
        self._process = process
        self._party: KeptObject | None = None

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Return the settings of the backend; see the port."""
        settings: Mapping[str, Any] = self._call(_plain_attribute, "settings")
        return settings

    @cached_property
    def lowers_to(self) -> str | None:
        """Return the precision below float32 in which it computes; None for float32."""
        lowers_to: str | None = self._call(_plain_attribute, "lowers_to")
        return lowers_to

    @cached_property
    def compute_precision(self) -> Any:
        """Return the operators that compute in less than float32; see the port."""
        return self._call(_plain_attribute, "compute_precision")

    def in_float32(self) -> WarmParty:
        """Return the same backend in float32, in the same process."""
        return WarmParty(self._call(_call_method, "in_float32", {}), self._process)

    def on_host(self) -> WarmParty | None:
        """Return the same backend on the CPU, in the same process, None if it is that already.
        See the port."""
        return self._related_party("on_host")

    def with_exact_products(self) -> WarmParty | None:
        """Return the same backend without saturation, in the same process,
        None if it has no such form; see the port."""
        return self._related_party("with_exact_products")

    def _related_party(self, name: str) -> WarmParty | None:
        """Return the party that a method of the party returns, in the same process, or None.
        The result is None if it returns None or there is no such method."""
        twin = getattr(self._source, name, lambda: None)()
        return None if twin is None else WarmParty(twin, self._process)

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return a function that runs a model loaded in the process; see the port."""
        return _WarmModel(self, model, {"plain": plain, "without": list(without)})

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the graph that is executed, None if the backend does not expose it.
        See the port."""
        how = {"without": list(without), **({} if level is None else {"level": level})}
        return self._call(_call_method, "runtime_graph", how, _load_model(model))

    def remedy(self, *, plain: bool, without: Collection[str]) -> Mapping[str, Any]:
        """Return the options that disable rewrites; see the port."""
        how = {"plain": plain, "without": list(without)}
        options: Mapping[str, Any] = self._call(_call_method, "remedy", how)
        return options

    def start(self) -> None:
        """Start the backend in the process; other methods do so on first use.

        The process can import a class of this package, so nobody has to wait for the start of such
        a party.
        """
        keep = self._process.keep
        if type(self._source).__module__.startswith("polygraphy."):
            keep = self._process.begin_to_keep
        self._party = keep(_start_party, self._source)

    def limit_calls(self, timeout: float) -> Any:
        """Return a context in which each call is silent and has a time limit."""
        return self._process.limit_calls(timeout, is_silent=True)

    def close(self) -> None:
        """End the process, which also frees device memory."""
        self._process.close()

    def load_in_process(self, model: Any, how: Mapping[str, Any]) -> KeptObject:
        """Load a model in the process, and return its handle."""
        return self._name_in_errors(
            lambda: self._process.keep(
                _call_method, self._party_handle(), "load", how, _load_model(model)
            )
        )

    def compute(self, loaded: KeptObject, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a model that was loaded in the process."""
        return self._name_in_errors(lambda: self._process.call(_compute, loaded, dict(feed)))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function called with the backend in its process."""
        return self._name_in_errors(
            lambda: self._process.call(function, self._party_handle(), *arguments)
        )

    def _party_handle(self) -> KeptObject:
        """Return the handle of the backend in its process; create it in a new process."""
        if self._party is None or not self._party.is_there:
            self._party = self._process.keep(_identity, self._source)
        return self._party

    def _name_in_errors(self, call: Callable[[], T]) -> T:
        """Return the result of a function, with the name of this backend added to its errors."""
        try:
            return call()
        except BackendError as error:
            # A crash does not show which backend caused it.
            error.backend = error.backend or self.name
            raise


class _WarmModel:
    """A model loaded in a process; it is reloaded if the process restarted."""

    def __init__(self, party: WarmParty, model: Any, how: Mapping[str, Any]) -> None:
        """Remember the model and the options to load it with."""
        self._party, self._model, self._how = party, model, how
        self._loaded = party.load_in_process(model, how)

    def __call__(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs for a feed."""
        if not self._loaded.is_there:
            self._loaded = self._party.load_in_process(self._model, self._how)
        return self._party.compute(self._loaded, feed)


def _identity(value: Any) -> Any:
    """Return the value unchanged."""
    return value


def _start_party(party: Any) -> Any:
    """Return a party after starting its library."""
    with suppress(Exception):  # The backend gives the reason when it loads a model.
        getattr(party, "start", lambda: None)()
    return party


def _plain_attribute(party: Any, name: str) -> Any:
    """Return an attribute of a party, None if it has none."""
    return _as_dict(getattr(party, name, None))


def _call_method(party: Any, name: str, how: Mapping[str, Any], *arguments: Any) -> Any:
    """Return the result of calling a method of a party by its name."""
    return _as_dict(getattr(party, name)(*arguments, **how))


def _as_dict(value: Any) -> Any:
    """Return a mapping as a dictionary; another value unchanged."""
    return dict(value) if isinstance(value, Mapping) else value  # Views cannot be pickled.


def _compute(loaded: Compute, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a loaded model."""
    return loaded(feed)


def _load_model(model: Any) -> Any:
    """Return a model, or the result of a loader."""
    return model() if callable(model) else model


def isolate(
    parties: Sequence[SuspectedParty], *, uses_device: bool = False
) -> list[SuspectedParty]:
    """Return parties that survive a crash.
    Those with libraries that cannot fork run in persistent processes.

    Args:
        parties: the backends.
        uses_device: whether other code uses a device in this process, so that it cannot be forked.
    """
    may_fork = is_fork_safe() and not uses_device
    return [
        _warm_party(party) if (party.rewrites and not may_fork) or _lacks_fork(party) else party
        for party in parties
    ]


def _lacks_fork(party: SuspectedParty) -> bool:
    """Return whether a party does not survive a fork."""
    return not getattr(party, "survives_fork", True)


def _warm_party(party: Any) -> Any:
    """Return a party in a persistent process; the party itself if that fails."""
    try:
        with foreign_errors():  # Pickling a class from a script can raise anything.
            key = sha256(pickle.dumps(party)).hexdigest()
            warm = WarmParty(party, warm_process(party.name, key))
            warm.start()
            return warm
    except PolygraphyException as error:
        G_LOGGER.verbose(errors.not_isolated(party.name, original_error(error)))
        return party


def close(parties: Sequence[SuspectedParty]) -> None:
    """Stop processes that use device memory; other processes continue."""
    for party in parties:
        if isinstance(party, WarmParty) and party.uses_device:
            party.close()


def run_in_subprocess(
    function: Callable[[], T],
    party: str | SuspectedParty,
    timeout: float | None = None,
    is_silent: bool = False,
    memory: int | None = None,
) -> T:
    """Return the result of a function, called in a subprocess if the system can fork.

    Args:
        function: the function to call.
        party: the party that the function calls, or its name.
        timeout: time limit in seconds.
        is_silent: whether to discard its standard error.
        memory: the limit for new memory in bytes.

    Raises:
        BackendError: it crashed, or exceeded the time limit.
    """
    if isinstance(party, WarmParty):
        return function()
    name = party if isinstance(party, str) else party.name
    try:
        return call_isolated(
            function, what=name, timeout=timeout, is_silent=is_silent, memory=memory
        )
    except UsageError:
        return function()


def load_carefully(party: SuspectedParty, model: Any, feed: Mapping[str, Any]) -> Compute:
    """Return the loaded model; if the backend may crash, it runs once in a subprocess first.

    Raises:
        BackendError: the backend refuses the model, or crashes.
    """
    try_alone(party, model, feed)
    compute = party.load(model)
    if party.rewrites and feed and isinstance(party, WarmParty):
        compute(feed)
    return compute


def try_alone(party: SuspectedParty, model: Any, feed: Mapping[str, Any]) -> None:
    """Run a model in a subprocess if the backend may crash; a `WarmParty` always runs in one.

    Raises:
        BackendError: the backend refuses the model, or crashes.
    """
    if not party.rewrites or not feed or isinstance(party, WarmParty):
        return
    try:
        run_in_subprocess(lambda: party.load(model)(feed) and None, party)
    except BackendError as error:
        # After a crash, only the caller knows which backend it was.
        error.backend = error.backend or party.name
        raise


def try_in_subprocess(
    function: Callable[[], T],
    party: str | SuspectedParty,
    limits: TrialLimits = _ANY,
    runs: int = 1,
) -> T | None:
    """Return the result of a function, called in a subprocess, or None.
    The result is None if it crashes a backend, or hangs.

    Args:
        function: the function to call.
        party: the party that the function calls, or its name.
        limits: what it may take.
        runs: the number of runs that the function needs.
    """
    try:
        return _run_unless_it_hangs(function, party, limits, runs, is_repeated=True)
    except BackendError as error:
        _report_stop(error, limits)
        return None


def filter_in_subprocess(
    guesses: Iterator[T],
    is_right: Callable[[T], bool],
    party: str | SuspectedParty,
    limits: TrialLimits = _ANY,
) -> Iterator[T]:
    """Yield the correct guesses, tested in a subprocess.
    One that crashes the backend, or hangs, is not correct.

    Args:
        guesses: the guesses to test.
        is_right: whether a guess is correct.
        party: the party that the function calls, or its name.
        limits: what each guess may take.
    """
    if isinstance(party, WarmParty):
        for guess in guesses:
            if try_in_subprocess(partial(is_right, guess), party, limits):
                yield guess
        return
    while chosen := list(islice(guesses, _AT_ONCE)):
        yield from _filter_guesses(chosen, is_right, party, limits)


def _filter_guesses(
    guesses: Sequence[T],
    is_right: Callable[[T], bool],
    party: str | SuspectedParty,
    limits: TrialLimits,
) -> Iterator[T]:
    """Yield the correct guesses, without those that crash their process or hang."""
    remaining_guesses = list(guesses)
    while remaining_guesses:
        count = len(remaining_guesses)
        try:
            test = partial(_first_right, remaining_guesses, is_right)
            matching = _run_unless_it_hangs(test, party, limits, count, is_repeated=count == 1)
        except BackendError as error:
            if count > 1:
                half = count // 2
                yield from _filter_guesses(remaining_guesses[:half], is_right, party, limits)
                yield from _filter_guesses(remaining_guesses[half:], is_right, party, limits)
            else:
                _report_stop(error, limits)
            return
        if matching is None:
            return
        yield remaining_guesses[matching]
        remaining_guesses = remaining_guesses[matching + 1 :]


def _report_stop(error: BackendError, limits: TrialLimits) -> None:
    """Report a guess if it was stopped because it does not end."""
    if error.is_stopped:
        limits.on_stop()


def _run_unless_it_hangs(
    function: Callable[[], T],
    who: str | SuspectedParty,
    limits: TrialLimits,
    runs: int,
    *,
    is_repeated: bool,
) -> T:
    """Return the result of a function that may hang.

    If it takes too long, a usual run is timed, and sets the limit: the machine may be busy. If
    `is_repeated`, the function is called again in any case: the machine may have stood still.

    Raises:
        BackendError: it crashed, or hangs.
    """
    limit, is_again = _LEAST_SECONDS, not is_repeated
    memory = limits.memory_for(who)
    while True:
        try:
            return _run_within(limit, function, who, memory)
        except BackendError as error:
            if limits.usual is None or not error.is_stopped:
                raise
            start = time.perf_counter()
            run_in_subprocess(limits.usual, who, is_silent=True)
            needed = (TIMES + runs) * (time.perf_counter() - start)
            if is_again and needed <= limit:
                raise
        limit, is_again = max(limit, needed), True


def _run_within(
    timeout: float, function: Callable[[], T], who: str | SuspectedParty, memory: int | None
) -> T:
    """Return the result of a function, called in a subprocess within some seconds.

    Raises:
        BackendError: it crashed, or took longer.
    """
    if not isinstance(who, WarmParty):
        return run_in_subprocess(function, who, timeout=timeout, is_silent=True, memory=memory)
    with who.limit_calls(timeout):
        return function()


def _first_right(guesses: Sequence[T], is_right: Callable[[T], bool]) -> int | None:
    """Return the position of the first correct guess; None if there is none."""
    return next((index for index, guess in enumerate(guesses) if is_right(guess)), None)
