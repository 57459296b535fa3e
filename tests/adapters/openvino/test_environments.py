"""OpenVINO in other environments."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("openvino")

from polygraphy.adapters.openvino.environments import open_environment
from polygraphy.adapters.openvino.party import OpenvinoParty
from polygraphy.application.diagnose.diagnosing import diagnose
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.domain.errors import BackendError
from polygraphy.ports.diagnosing import DiagnosisReports
from tests.support.examples import spread
from tests.support.helpers.openvino_models import X, conv_relu
from tests.support.helpers.openvino_parties import Kept, WrongFusion


@pytest.mark.parametrize("how", spread([{"precision_hint": "f32", "threads": 1}, {}], 1))
def test_a_model_is_run_as_here(how: dict[str, object]) -> None:
    import openvino

    party = OpenvinoParty(**how)
    found = open_environment(sys.executable)
    assert found.version == openvino.__version__.partition("-")[0]
    assert found.install == f"pip install openvino=={found.version}"
    made = found.run(conv_relu(), {"x": X}, party.settings)
    here = party.load(conv_relu())({"x": X})
    assert made.keys() == here.keys() == {"y", "z"}
    for name, array in made.items():
        np.testing.assert_allclose(array, here[name], rtol=1e-5, atol=1e-5)


def test_a_model_that_is_refused_is_one_line() -> None:
    model = conv_relu()
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(BackendError) as caught:
        open_environment(sys.executable).run(model, {"x": X}, OpenvinoParty().settings)
    assert len(str(caught.value).splitlines()) == 1


def test_another_release_that_is_right_is_named(tmp_path: Path) -> None:
    """An interpreter that says it has another release, and computes rightly, is that."""
    other, path = tmp_path / "python", str(tmp_path / "m.onnx")
    here = shlex.quote(sys.executable)
    other.write_text(
        f'#!/bin/sh\ncase "$*" in *"import openvino; print"*) echo version 2024.9.9-1;;'
        f' *) exec {here} "$@";; esac\n'
    )
    other.chmod(0o755)
    onnx.save(conv_relu(), path)
    shown, party = Kept(), WrongFusion(precision_hint="f32")
    with bind(DiagnosisReports, shown):
        assert not diagnose(path, [party, OnnxrtParty()], environments=str(other))
    [culprit] = shown.results[0].culprits
    assert any("With openvino 2024.9.9 instead of" in said for said in culprit.evidence)
