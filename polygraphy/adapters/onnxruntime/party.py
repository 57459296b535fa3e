"""ONNX Runtime as a party of a diagnosis: shows the graph that it runs, and leaves rewrites out."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from polygraphy import mod
from polygraphy.adapters.onnx_common.loadable import loadable_form
from polygraphy.adapters.onnxruntime.providers import (
    Provider,
    library_of,
    match_providers,
    translate_errors,
)
from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import (
    CUDA,
    REWRITES,
    are_on_host,
    cuda_precision,
    load_session,
    match_rewrites,
    session_options,
)
from polygraphy.domain.catalog.compute import TF32_ENVIRONMENT, ComputePrecision
from polygraphy.domain.errors import UsageError
from polygraphy.ports.machine import is_tf32_forced

np = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_PLAIN = "DISABLE_ALL"
_HELD = 1 << 26
"""Bytes of a model that a session may keep in addition to its own copy."""
_CONVOLUTION = """
<ir_version: 8, opset_import: ["": 17]>
convolution (float[1,1,3,3] x) => (float[1,1,3,3] y) { y = Conv <pads = [1, 1, 1, 1]> (x, x) }
"""
_SMALL = 1 << 16
"""Bytes of a model below which threads do not spin: a search makes hundreds of sessions, and the
spinning threads of one delay the next by more than it costs to wake them.
"""
_SPINNING = "session.intra_op.allow_spinning"
_EXACT_PRODUCTS = "session.x64quantprecision"
"""Without VNNI, products of uint8 and int8 are added in pairs of 16 bits, and may saturate; with
this option ONNX Runtime stores weights as uint8 instead.
"""
_WEIGHTS_OF_OPTIMIZED = "session.optimized_model_external_initializers_file_name"


@mod.export()
class OnnxrtParty:
    """ONNX Runtime; implements the port `SuspectedParty`."""

    name = "onnxrt"
    passes = REWRITES
    rewrites = True
    levels = ("ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")

    def __init__(
        self,
        providers: Sequence[Provider] | None = None,
        graph_optimization_level: str | None = None,
        threads: int | None = None,
        disabled_optimizers: Sequence[str] | None = None,
        provider_libraries: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        """Set the options of sessions (see `SessionFromOnnx`), and the name of the backend in a
        diagnosis.
        """
        self.name = name or type(self).name
        self._libraries = dict(provider_libraries or {})
        self._providers = ["cpu"] if providers is None else list(providers)
        self._level = graph_optimization_level
        self._threads = threads
        self._disabled = match_rewrites(disabled_optimizers or ())
        self._has_exact_products = False

    @property
    def backend(self) -> str:
        """Return the flag of its kind, without the dashes."""
        return type(self).name

    @property
    def uses_device(self) -> bool:
        """Return whether a provider may use a device; see the port."""
        return not are_on_host(self._providers) or bool(self._libraries)

    @property
    def survives_fork(self) -> bool:
        """Return whether forked processes can run sessions; see the port."""
        return not self.uses_device

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of sessions in another environment."""
        values: dict[str, Any] = {"module": "onnxruntime"}
        values["providers"] = self._full_providers()
        if self._libraries:
            paths = {name: library_of(source) for name, source in self._libraries.items()}
            values["provider_libraries"] = paths
        level = session_options(self._level).graph_optimization_level.name
        if self._level is not None:
            values["graph_optimization_level"] = level
        if self._threads is not None:
            values["threads"] = self._threads
        if self._disabled:
            values["disabled_optimizers"] = list(self._disabled)
        return values

    @property
    def options(self) -> dict[str, Any]:
        """Return the options that create sessions; see the port."""
        level = session_options(self._level).graph_optimization_level.name
        options = {
            "provider_libraries": self._libraries,
            "providers": () if self._providers == ["cpu"] else tuple(self._providers),
            "graph_optimization_level": level if self._level else None,
            "threads": self._threads,
            "disabled_optimizers": tuple(self._disabled),
        }
        return {name: value for name, value in options.items() if value}

    @property
    def lowers_to(self) -> str | None:
        """Return ``tf32`` if float32 operators are computed in it, else None; see the port."""
        return None if self.compute_precision is None else self.compute_precision.dtype

    @property
    def compute_precision(self) -> ComputePrecision | None:
        """Return which operators are computed in TF32; None if none are."""
        cuda = self._cuda()
        return None if cuda is None else cuda_precision(cuda[1])

    def in_float32(self) -> OnnxrtParty:
        """Return the same backend, computing in float32.

        Raises:
            UsageError: the environment does not allow it.
        """
        if is_tf32_forced():
            raise UsageError(
                f"{TF32_ENVIRONMENT} is 1, so CUDA always computes in TF32, and nothing can be"
                " compared in float32.",
                hint=f"Unset {TF32_ENVIRONMENT}.",
            )
        cuda = self._cuda()
        providers = list(self._providers)
        if cuda is not None:
            at, options = cuda
            provider = providers[at]
            name = provider if isinstance(provider, str) else provider[0]
            providers[at] = (name, {**options, "use_tf32": 0})
        how = (self._level, self._threads, self._disabled, self._libraries)
        return OnnxrtParty(providers, *how, self.name)

    def on_host(self) -> OnnxrtParty | None:
        """Return the same backend on the CPU; None if it does not use a device. See the port."""
        if not self.uses_device:
            return None
        return OnnxrtParty(["cpu"], self._level, self._threads, self._disabled, None, self.name)

    def with_exact_products(self) -> OnnxrtParty | None:
        """Return the same backend without saturating products of uint8 and int8, or None.
        The result is None if it does not run on the CPU.
        """
        if self.uses_device:
            return None
        party = copy(self)
        party._has_exact_products = True
        return party

    def _cuda(self) -> tuple[int, dict[str, Any]] | None:
        """Return the position of CUDA among the providers and its options, or None.
        The result is None if it is not one."""
        if self._providers == ["cpu"]:
            return None
        matched = [
            (full_provider, {}) if isinstance(full_provider, str) else full_provider
            for full_provider in self._full_providers()
        ]
        names = [name for name, _ in matched]
        if CUDA not in names or len(matched) != len(self._providers):
            return None
        at = names.index(CUDA)
        return at, dict(matched[at][1])

    def start(self) -> None:
        """Run a convolution, so that a device loads its libraries; see the port."""
        if self.uses_device:
            self.load(onnx.parser.parse_model(_CONVOLUTION))({"x": np.ones((1, 1, 3, 3), "f")})

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function that runs a session; see the port."""
        runner = OnnxrtRunner(self._session(model, _PLAIN if plain else None, without))
        runner.activate()
        return partial(runner.infer, check_inputs=False)

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the graph after all rewrites; None if ONNX Runtime does not save it."""
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            path = Path(folder) / "optimized.onnx"
            self._session(model, level, without, str(path))
            return onnx.load(str(path)) if path.exists() else None

    def remedy(self, *, plain: bool, without: Collection[str]) -> dict[str, Any]:
        """Return the options that run a model without rewrites."""
        if without and not plain:
            disabled = tuple(dict.fromkeys([*self._disabled, *without]))
            return {**self.options, "disabled_optimizers": disabled}
        options = {**self.options, "graph_optimization_level": _PLAIN}
        options.pop("disabled_optimizers", None)
        return options

    def _full_providers(self) -> list[Provider]:
        """Return the providers by their full names."""
        return match_providers(self._providers, self._libraries)

    def _session(
        self, model: Any, level: str | None, without: Collection[str], saved: str | None = None
    ) -> Any:
        """Return a session for a model, with the options of this backend."""
        options = session_options(level or self._level)
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        if saved is not None:
            options.optimized_model_filepath = saved
        providers = self._full_providers()
        without = [*self._disabled, *without]
        translated = translate_errors("load", uses_device=lambda: self.uses_device)
        with loadable_form(model, _HELD) as source, translated:
            if isinstance(source, bytes) and len(source) < _SMALL:
                options.add_session_config_entry(_SPINNING, "0")
            if self._has_exact_products:
                options.add_session_config_entry(_EXACT_PRODUCTS, "1")
            if saved is not None and isinstance(source, str) and source is not model:
                options.add_session_config_entry(_WEIGHTS_OF_OPTIMIZED, "weights.data")
            return load_session(source, options, providers, without)
