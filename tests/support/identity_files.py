"""The static identity model, scripts about it, and tactic replays of its builds."""

from __future__ import annotations

from pathlib import Path

from tests.support import models, replays
from tests.support.files import copy_script

__all__ = ["build", "build_calibration_example"]

_LAYER = "node_of_y"
_REPLAY: replays.Layers = {_LAYER: replays.algorithm(0)}


def build(folder: Path) -> None:
    """Write the models, scripts and tactic replays of the group into `folder`.

    replays/ holds two good replays and no bad one, so no tactic in it can be suspected.
    """
    models.save(models.identity(), folder / "identity.onnx")
    models.save(models.identity_fp16(), folder / "identity_fp16.onnx")
    copy_script("identity_data_loader.py", folder / "data_loader.py")
    copy_script("identity_example.py", folder / "example.py")
    copy_script("identity_compare.py", folder / "compare.py")
    replays.write(folder / "replay.json", _REPLAY)
    replays.write_directory(folder / "replays", good=[_REPLAY, _REPLAY], bad=[])


def build_calibration_example(folder: Path) -> None:
    """Write example.py with `calib_data`, for commands that run in another folder."""
    copy_script("identity_calibration_example.py", folder / "example.py")
