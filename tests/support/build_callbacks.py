"""A TensorRT that calls calibrators and algorithm selectors as TensorRT 8.6 does, and builds
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

__all__ = ["CallingTensorRT", "choice"]


def choice(tactic: int, *, implementation: int = 0x8000000D, dtype: str = "FLOAT") -> Any:
    """Return a tactic with one input and one output, as an `IAlgorithm` describes it."""
    info = SimpleNamespace(
        dtype=f"DataType.{dtype}", strides=[4, 1], vectorized_dim=-1, components_per_element=1
    )
    return SimpleNamespace(
        algorithm_variant=SimpleNamespace(implementation=implementation, tactic=tactic),
        get_algorithm_io_info=lambda index: info,
    )


class _Calibrator:
    kind = "ENTROPY_CALIBRATION_2"

    def __init__(self) -> None:
        """Start without a cache."""
        self.is_made = True

    def get_algorithm(self) -> str:
        """Return the kind of calibration."""
        return self.kind


class CallingTensorRT:
    """A module with the classes that Python code derives from, and what a build does with them."""

    __name__ = "tensorrt"
    __version__ = "8.6.0"

    def __init__(self, *, has_calibrators: bool = True, has_selectors: bool = True) -> None:
        """Create the names of a version with or without calibrators and selectors."""
        if has_calibrators:
            self.IInt8Calibrator = type("IInt8Calibrator", (_Calibrator,), {})
            self.IInt8EntropyCalibrator2 = type(
                "IInt8EntropyCalibrator2", (self.IInt8Calibrator,), {}
            )
            self.IInt8MinMaxCalibrator = type(
                "IInt8MinMaxCalibrator", (self.IInt8Calibrator,), {"kind": "MINMAX_CALIBRATION"}
            )
            self.CalibrationAlgoType = SimpleNamespace(
                ENTROPY_CALIBRATION_2="ENTROPY_CALIBRATION_2", LEGACY_CALIBRATION="LEGACY"
            )
        if has_selectors:
            self.IAlgorithmSelector = type("IAlgorithmSelector", (), {})

    def calibrate(self, calibrator: Any, names: Sequence[str]) -> list[list[int]]:
        """Calibrate as a build does, and return the addresses of each batch.

        If there is a cache, there are none.
        """
        assert calibrator.is_made
        calibrator.get_batch_size()
        calibrator.get_algorithm()
        if calibrator.read_calibration_cache() is not None:
            return []
        batches: list[list[int]] = []
        while (batch := calibrator.get_batch(list(names))) is not None:
            batches.append(batch)
        if batches:
            calibrator.write_calibration_cache(memoryview(b"TRT-8600-Entropy\nx: 3c010a14\n"))
            calibrator.read_calibration_cache()  # TensorRT 8.6 reads the cache again.
        return batches

    def choose(self, selector: Any, layers: Mapping[str, Sequence[Any]]) -> dict[str, int]:
        """Select the last allowed tactic of each layer, as a build does; return them by layer."""
        chosen = {}
        for name, choices in layers.items():
            context = SimpleNamespace(name=name, num_inputs=1, num_outputs=1)
            allowed = selector.select_algorithms(context, choices)
            assert all(type(index) is int for index in allowed)
            chosen[name] = choices[allowed[-1] if allowed else 0]
        contexts = [SimpleNamespace(name=name, num_inputs=1, num_outputs=1) for name in chosen]
        selector.report_algorithms(contexts, list(chosen.values()))
        return {name: one.algorithm_variant.tactic for name, one in chosen.items()}
