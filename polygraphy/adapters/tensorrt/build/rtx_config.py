"""Builder configurations of TensorRT-RTX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polygraphy import mod
from polygraphy.adapters.tensorrt.build.config import CreateConfig
from polygraphy.adapters.tensorrt.library.capabilities import enum_value, require
from polygraphy.domain.errors import UsageError

create_config_rtx: Callable[..., Any]


@mod.export(funcify=True, func_name="create_config_rtx")
class CreateConfigRTX(CreateConfig):
    """Makes a builder configuration of TensorRT-RTX."""

    def __init__(
        self,
        use_gpu: bool | None = None,
        compute_capabilities: Sequence[tuple[int, int]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Describe the configuration.

        Args:
            use_gpu: whether the engine is for the GPU of this machine, and no other.
            compute_capabilities: the compute capabilities, as ``(major, minor)``, that the engine
                is for (default: TensorRT-RTX decides).
            **kwargs: see `CreateConfig` and `CommonSettings`.

        Raises:
            TypeError: there is no setting of that name.
            UsageError: two settings contradict each other.
        """
        if use_gpu and compute_capabilities:
            raise UsageError(
                "use_gpu and compute_capabilities contradict each other.",
                hint="Build for the GPU of this machine, or name what to build for.",
            )
        self._use_gpu = bool(use_gpu)
        self._compute_capabilities = list(compute_capabilities or ())
        super().__init__(**kwargs)

    def call_impl(self, builder: Any, network: Any) -> Any:
        """Return the `tensorrt_rtx.IBuilderConfig`; without profiles if `network` is None.

        Raises:
            BackendError: TensorRT-RTX is not in use, or refuses a value.
            UsageError: a profile does not fit the network.
        """
        require("compute_capability", "CreateConfigRTX")
        config = super().call_impl(builder, network)
        names = [f"SM{major}{minor}" for major, minor in self._compute_capabilities]
        if self._use_gpu:
            names = ["CURRENT"]
        if names:
            config.num_compute_capabilities = len(names)
        for index, name in enumerate(names):
            member = enum_value("ComputeCapability", name, f"compute capability {name}")
            if not config.set_compute_capability(member, index):
                raise UsageError(f"TensorRT-RTX does not build for {name}.")
        return config
