"""The tests that compute in OpenVINO, run where no other test forks processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_WORKER = "PYTEST_XDIST"
_SECONDS = 900
"""How long they may take before they are ended: one that hangs would stop all others with it."""


def test_those_that_compute_pass_in_a_process_of_their_own(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("openvino")
    profile = request.config.getoption("--hypothesis-profile") or "default"
    words = ["-m", "openvino", "-q", "-p", "no:cacheprovider", f"--hypothesis-profile={profile}"]
    words += ["-o", f"faulthandler_timeout={_SECONDS // 3}"]  # Says where a test hangs.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "tests/contract", "tests/adapters/openvino"],
        cwd=_ROOT,
        env={key: text for key, text in os.environ.items() if not key.startswith(_WORKER)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout.splitlines()[-1]
