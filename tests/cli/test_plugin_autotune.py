"""Each option of `plugin autotune` reaches the program."""

from __future__ import annotations

import pytest

from polygraphy.cli.declare.errors import CommandLineError
from tests.codegen.commands import rendered
from tests.support.calls import holds_call

COMMAND = "plugin autotune m.onnx --plugin-dir d"
_ENGINE = "NetworkFromOnnxModel(ReplacePlugins(OnnxFromPath(MODEL), PLUGINS, chosen))"
FLAGS = {
    "--include a b": "match_plugins(OnnxFromPath(MODEL), PLUGINS, include=['a', 'b'])",
    "--exclude a": "match_plugins(OnnxFromPath(MODEL), PLUGINS, exclude=['a'])",
    "--plugin-libraries a.so": f"LoadPlugins(plugins=['a.so'], obj={_ENGINE})",
    "--python-plugins p.py q.py": "run_path('q.py')",
    "--save-config-yaml": "save_matches(matches, 'config.yaml')",
    "--save-config-yaml c.yaml": "save_matches(matches, 'c.yaml')",
    "--load-config-yaml c.yaml": "load_matches('c.yaml')",
    "--skip-autotuning --save-config-yaml c.yaml": "save_matches(matches, 'c.yaml')",
    "--skip-autotuning": "save_matches(matches, 'config.yaml')",
    "--autotune-mode exhaustive": "autotune_plugins(make_runner, matches, mode='exhaustive')",
    "--max-combinations 7": "autotune_plugins(make_runner, matches, max_combinations=7)",
    "--threshold 0.5": "autotune_plugins(make_runner, matches, threshold=0.5)",
    "--rtol 0.5": "SimpleCompareFunc(rtol=0.5, atol=0.001)",
    "--atol 0.5": "SimpleCompareFunc(rtol=0.001, atol=0.5)",
    "--timing-cache t": "CreateConfig(load_timing_cache='t')",
    "--timing-cache u": "EngineFromNetwork(_, config=_, save_timing_cache='u')",
    "--load-timing-cache t": "CreateConfig(load_timing_cache='t')",
    "--tactic-sources": "CreateConfig(tactic_sources=[])",
    "--pool-limit workspace:1K": "CreateConfig(memory_pool_limits={'workspace': 1024})",
    "--int8 --calibration-cache c": "Calibrator(data_loader, cache='c')",
    "--layer-precisions a:fp16": "SetLayerPrecisions(_, layer_precisions={'a': 'float16'})",
    "--trt-config-script c.py": "InvokeFromScript('c.py', name='load_config')",
    "--onnx-flags enable_plugin_override": (
        "NetworkFromOnnxModel(_, flags=['enable_plugin_override'])"
    ),
    "--trt-min-shapes x:[1,2]": "Profile().add('x', min=[1, 2], opt=[1, 2], max=[1, 2])",
    "--plugin-libraries b.so --fp16": f"LoadPlugins(plugins=['b.so'], obj={_ENGINE})",
    "--input-shapes x:[1,2]": "Profile().add('x', min=[1, 2], opt=[1, 2], max=[1, 2])",
    "--seed 3": "autotune_plugins(make_runner, matches, DataLoader(seed=3))",
    "-o other.onnx": "save_onnx(model, path='other.onnx')",
    "--save-external-data w": ("save_onnx(model, path='m_tuned.onnx', external_data_path='w')"),
}


@pytest.mark.parametrize("words", FLAGS)
def test_each_flag_reaches_the_program(words: str) -> None:
    assert holds_call(rendered(f"{COMMAND} {words}"), FLAGS[words])
    assert not holds_call(rendered(COMMAND), FLAGS[words])


def test_the_usual_output_is_named_after_the_model() -> None:
    assert holds_call(rendered(COMMAND), "save_onnx(model, path='m_tuned.onnx')")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("plugin autotune m.onnx", "missing --plugin-dir"),
        (f"{COMMAND} --include a --exclude b", "cannot be combined"),
        (f"{COMMAND} --timing-cache t --no-timing-cache", "cannot be combined"),
        (f"{COMMAND} --save-timing-cache t --no-timing-cache", "cannot be combined"),
        (f"{COMMAND} -o t --timing-cache t", "have the same path"),
        (f"{COMMAND} --skip-autotuning --load-config-yaml c", "Remove one of the two"),
        (f"{COMMAND} -o m.onnx", "m.onnx"),
    ],
)
def test_what_cannot_be_meant(command: str, reason: str) -> None:
    with pytest.raises(CommandLineError, match=reason):
        rendered(command)


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        ("--threshold 0.5", "--threshold: has no effect"),
        ("--skip-autotuning --fp16", "--fp16: has no effect, because nothing is run"),
        ("--load-config-yaml c --include a", "--include: has no effect"),
    ],
)
def test_what_has_no_effect(words: str, warning: str, capsys: pytest.CaptureFixture[str]) -> None:
    rendered(f"{COMMAND} {words}")
    assert warning in capsys.readouterr().err
