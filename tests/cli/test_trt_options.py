"""Options about TensorRT: what programs they make, and which are refused or have no effect."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.backends.trt.kinds import Budget, ComputeCapabilities, Constraints
from polygraphy.cli.commands.convert import ConvertCommand
from polygraphy.cli.commands.run.run import RunCommand, RunnerOptions
from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.option import argv_of
from polygraphy.cli.parser import parse
from tests.codegen.commands import rendered
from tests.support.calls import calls_of, holds_call

_BUILD = "build_engine"
_NETWORK = "load_network"
_PATH = "NetworkFromOnnxPath"

FLAGS = {
    "--tf32": "CreateConfig(tf32=True)",
    "--fp16": "CreateConfig(fp16=True)",
    "--bf16": "CreateConfig(bf16=True)",
    "--fp8": "CreateConfig(fp8=True, calibrator=calibrator)",
    "--int8": "CreateConfig(int8=True, calibrator=calibrator)",
    "--precision-constraints prefer": "CreateConfig(precision_constraints='prefer')",
    "--precision-constraints OBEY": "CreateConfig(precision_constraints='obey')",
    "--precision-constraints a:b:half c:int8": (
        "CreateConfig(fp16=True, int8=True, calibrator=calibrator, precision_constraints='obey')"
    ),
    "--layer-precisions a:fp16 b:c:float32": (
        "SetLayerPrecisions(parse_network, layer_precisions={'a': 'float16', 'b:c': 'float32'})"
    ),
    "--layer-precisions a:int8": (
        "SetLayerPrecisions(parse_network, layer_precisions={'a': 'int8'}, calibrator=calibrator)"
    ),
    "--int8 --layer-precisions a:int8": (
        "SetLayerPrecisions(parse_network, layer_precisions={'a': 'int8'})"
    ),
    "--layer-precisions a:fp8 --calibration-cache c": "Calibrator(data_loader, cache='c')",
    "--strongly-typed": f"{_PATH}(MODEL, strongly_typed=True)",
    "--tensor-dtypes x:half": "SetTensorDatatypes(_, tensor_datatypes={'x': 'float16'})",
    "--tensor-datatypes x:int8": "SetTensorDatatypes(_, tensor_datatypes={'x': 'int8'})",
    "--all-tensor-dtypes bf16": "SetTensorDatatypes(_, tensor_datatypes='bfloat16')",
    "--tensor-formats x:[LINEAR,chw4]": (
        "SetTensorFormats(_, tensor_formats={'x': ['linear', 'chw4']})"
    ),
    "--all-tensor-formats linear hwc8": "SetTensorFormats(_, tensor_formats=['linear', 'hwc8'])",
    "--int8 --calibration-cache c": "Calibrator(data_loader, cache='c')",
    "--int8 --calib-base-cls iint8legacycalibrator --quantile 0.9 --regression-cutoff 0.3": (
        "Calibrator(data_loader, BaseClass='IInt8LegacyCalibrator', quantile=0.9,"
        " regression_cutoff=0.3)"
    ),
    "--quantization-flags": "CreateConfig(quantization_flags=[])",
    "--quantization-flags calibrate_before_fusion": (
        "CreateConfig(quantization_flags=['calibrate_before_fusion'])"
    ),
    "--timing-cache t": (
        "EngineFromNetwork(_, config=CreateConfig(load_timing_cache='t'), save_timing_cache='t')"
    ),
    "--load-timing-cache t": "CreateConfig(load_timing_cache='t')",
    "--save-timing-cache t": "EngineFromNetwork(_, save_timing_cache='t')",
    "--error-on-timing-cache-miss": "CreateConfig(error_on_timing_cache_miss=True)",
    "--disable-compilation-cache": "CreateConfig(disable_compilation_cache=True)",
    "--save-tactics t": "CreateConfig(algorithm_selector=TacticRecorder('t'))",
    "--load-tactics t": "CreateConfig(algorithm_selector=TacticReplayer('t'))",
    "--exclude-tactics t": "CreateConfig(algorithm_selector=TacticReplayer(exclude='t'))",
    "--save-tactics t --exclude-tactics u": "TacticRecorder('t', exclude='u')",
    "--tactic-sources": "CreateConfig(tactic_sources=[])",
    "--tactic-sources CUBLAS cudnn cublas": "CreateConfig(tactic_sources=['cublas', 'cudnn'])",
    "--workspace 1.5K": "CreateConfig(memory_pool_limits={'workspace': 1536})",
    "--pool-limit workspace:1K DLA_LOCAL_DRAM:2": (
        "CreateConfig(memory_pool_limits={'workspace': 1024, 'dla_local_dram': 2})"
    ),
    "--builder-optimization-level 5": "CreateConfig(builder_optimization_level=5)",
    "--tiling-optimization-level full": "CreateConfig(tiling_optimization_level='full')",
    "--max-aux-streams 0": "CreateConfig(max_aux_streams=0)",
    "--sparse-weights": "CreateConfig(sparse_weights=True)",
    "--preview-features": "CreateConfig(preview_features=[])",
    "--preview-features profile_sharing_0806": (
        "CreateConfig(preview_features=['profile_sharing_0806'])"
    ),
    "--profiling-verbosity NONE": "CreateConfig(profiling_verbosity='none')",
    "--direct-io": "CreateConfig(direct_io=True)",
    "--refittable": "CreateConfig(refittable=True)",
    "--strip-plan": "CreateConfig(strip_plan=True)",
    "--weight-streaming": "CreateConfig(weight_streaming=True)",
    "--version-compatible": "CreateConfig(version_compatible=True)",
    "--version-compatible --fp16": f"{_PATH}(MODEL, flags=['native_instancenorm'])",
    "--version-compatible --exclude-lean-runtime": (
        "CreateConfig(version_compatible=True, exclude_lean_runtime=True)"
    ),
    "--hardware-compatibility-level Ampere_Plus": (
        "CreateConfig(hardware_compatibility_level='ampere_plus')"
    ),
    "--runtime-platform windows_amd64": "CreateConfig(runtime_platform='windows_amd64')",
    "--use-dla --allow-gpu-fallback": "CreateConfig(use_dla=True, allow_gpu_fallback=True)",
    "--trt-safety-restricted": "CreateConfig(restricted=True)",
    "--trt-config-script c.py": ("EngineFromNetwork(load_network, config=create_config)"),
    "--trt-config-script c.py:made": "InvokeFromScript('c.py', name='made')",
    "--trt-config-script c.py --trt-config-func-name made": "InvokeFromScript('c.py', name='made')",
    "--trt-config-postprocess-script c.py": (
        "PostprocessConfig(CreateConfig(), func=InvokeFromScript('c.py', name='postprocess_config'))"
    ),
    "--trt-cpps c.py:f": "PostprocessConfig(_, func=InvokeFromScript('c.py', name='f'))",
    "--plugins a.so b.so": f"LoadPlugins(plugins=['a.so', 'b.so'], obj={_PATH}(MODEL))",
    "--onnx-flags NATIVE_INSTANCENORM": f"{_PATH}(MODEL, flags=['native_instancenorm'])",
    "--onnx-flags report_capability_dla --use-dla --fp16": (
        f"{_PATH}(MODEL, config=CreateConfig(fp16=True, use_dla=True),"
        " flags=['report_capability_dla'])"
    ),
    "--plugin-instancenorm": f"{_PATH}(MODEL, plugin_instancenorm=True)",
    "--enable-uint8-asymmetric-quantization-dla": (
        f"{_PATH}(MODEL, flags=['enable_uint8_and_asymmetric_quantization_dla'])"
    ),
    "--trt-outputs a b*": "ModifyNetworkOutputs(_, outputs=['a', 'b*'])",
    "--trt-outputs mark all": "ModifyNetworkOutputs(_, outputs=MARK_ALL)",
    "--trt-exclude-outputs a": "ModifyNetworkOutputs(_, exclude_outputs=['a'])",
    "--trt-outputs-by-type convolution": (
        "ModifyNetworkOutputs(_, mark_layer_types=['convolution'])"
    ),
    "--mark-all --exclude-outputs z": (
        "ModifyNetworkOutputs(_, outputs=MARK_ALL, exclude_outputs=['z'])"
    ),
    "--trt-network-postprocess-script p.py": (
        "PostprocessNetwork(_, func=InvokeFromScript('p.py', name='postprocess'))"
    ),
    "--trt-npps p.py q.py:f": "PostprocessNetwork(_, func=InvokeFromScript('q.py', name='f'))",
    "--decomposable-attentions": "SetDecomposableAttentions(parse_network)",
    "--mark-debug a b": "MarkDebug(parse_network, mark_debug=['a', 'b'])",
    "--mark-unfused-tensors-as-debug-tensors": (
        f"{_PATH}(MODEL, mark_unfused_tensors_as_debug_tensors=True)"
    ),
    "--save-engine e": "SaveEngine(build_engine, path='e')",
    "--load-runtime l.so": "EngineFromNetwork(_, runtime=LoadRuntime('l.so'))",
    "--dla-workspace-allocation-strategy shared_static": (
        "EngineFromNetwork(_, dla_workspace_allocation_strategy='shared_static')"
    ),
    "--optimization-profile 1": "TrtRunner(_, optimization_profile=1)",
    "--allocation-strategy profile": "TrtRunner(_, allocation_strategy='profile')",
    "--weight-streaming-budget 1K": "TrtRunner(_, weight_streaming_budget=1024)",
    "--weight-streaming-budget -1": "TrtRunner(_, weight_streaming_budget=-1)",
    "--weight-streaming-budget 12.5%": "TrtRunner(_, weight_streaming_percent=12.5)",
    "--cuda-graph on": "TrtRunner(_, cuda_graph='on')",
    "--device 1": "TrtRunner(_, device=1)",
    "--device-times": "TrtRunner(_, device_times=True)",
    "--trt-min-shapes x:[1,2]": "Profile().add('x', min=[1, 2], opt=[1, 2], max=[1, 2])",
    "--trt-opt-shapes x:[1,2]": "Profile().add('x', opt=[1, 2], max=[1, 2])",
    "--trt-max-shapes x:[1,2]": "Profile().add('x', opt=[1, 2], max=[1, 2])",
    "--fp-to-fp16": "ConvertToFp16(OnnxFromPath(MODEL))",
    "--to-bf16": "ConvertToBf16(OnnxFromPath(MODEL))",
    "--trt-engine e.plan": "TrtRunner(EngineFromPath('e.plan'))",
}
"""Words, and a call that the program holds with them; the program without them must not."""


@pytest.mark.parametrize("words", FLAGS)
def test_each_flag_reaches_the_program(words: str) -> None:
    expected = FLAGS[words]
    assert holds_call(rendered(f"run m.onnx --trt {words}"), expected)
    assert not holds_call(rendered("run m.onnx --trt"), expected)


CONVERT_FLAGS = {
    "--engine-capability dla_standalone": "CreateConfig(engine_capability='dla_standalone')",
    "--use-gpu": "CreateConfigRTX(use_gpu=True)",
    "--compute-capabilities 8.9 120": "CreateConfigRTX(compute_capabilities=[(8, 9), (12, 0)])",
    "--save-timing-cache t": "EngineBytesFromNetwork(load_network, save_timing_cache='t')",
    "--onnx-outputs a": "ModifyOutputs(OnnxFromPath(MODEL), outputs=['a'])",
    "--save-onnx s.onnx": "SaveOnnx(OnnxFromPath(MODEL), path='s.onnx')",
    "--int8 --seed 3": "DataLoader(seed=3)",
}


@pytest.mark.parametrize("words", CONVERT_FLAGS)
def test_each_flag_of_convert_reaches_the_program(words: str) -> None:
    expected = CONVERT_FLAGS[words]
    assert holds_call(rendered(f"convert m.onnx -o m.engine {words}"), expected)
    assert not holds_call(rendered("convert m.onnx -o m.engine"), expected)


TF_FLAGS = {
    "": "TfRunner(SessionFromGraph(GraphFromFrozen(MODEL)))",
    "--model-type keras": "GraphFromKeras(MODEL)",
    "--model-type saved-model": "GraphFromSavedModel(MODEL)",
    "--model-type ckpt --ckpt c": "GraphFromCkpt(MODEL, name='c')",
    "--freeze-graph": "OptimizeGraph(GraphFromFrozen(MODEL))",
    "--tf-outputs a b": "ModifyGraphOutputs(_, outputs=['a', 'b'])",
    "--tf-outputs *": "ModifyGraphOutputs(_, outputs=MARK_ALL)",
    "--mark-all": "ModifyGraphOutputs(_, outputs=MARK_ALL)",
    "--save-pb p --save-tensorboard t": "SaveGraph(_, path='p', tensorboard_dir='t')",
    "--tftrt --fp16 --minimum-segment-size 3 --dynamic-op --workspace 1K": (
        "UseTfTrt(_, max_workspace_size=1024, fp16=True, is_dynamic_op=True,"
        " minimum_segment_size=3)"
    ),
    "--gpu-memory-fraction 0.5 --allow-growth --xla": (
        "CreateTfConfig(gpu_memory_fraction=0.5, allow_growth=True, use_xla=True)"
    ),
    "--save-timeline d": "TfRunner(_, timeline_dir='d')",
    "--onnxrt --opset 13": "onnx_from_tf_graph(GraphFromFrozen(MODEL), opset=13)",
}


@pytest.mark.parametrize("words", TF_FLAGS)
def test_each_flag_about_tensorflow_reaches_the_program(words: str) -> None:
    command = "run m.pb --tf --onnxrt" if "--opset" in words else "run m.pb --tf"
    program = rendered(f"{command} {words.replace('--onnxrt', '')}")
    if "--opset" in words:
        expected = "OnnxFromTfGraph(GraphFromFrozen(MODEL), opset=13)"
    else:
        expected = TF_FLAGS[words]
    assert holds_call(program, expected), program


def test_the_plugin_references_share_the_model_with_others() -> None:
    program = rendered("run m.onnx --pluginref --onnxrt --onnx-outputs a")
    assert holds_call(program, "PluginRefRunner(model)")
    assert holds_call(program, "SessionFromOnnx(model)")


def test_a_network_script_is_called_by_its_name() -> None:
    for command in ("run n.py:made --trt", "run n.py --trt --trt-network-func made"):
        assert holds_call(rendered(command), "InvokeFromScript(MODEL, name='made')")
    assert "MODEL = 'n.py'" in rendered("run n.py:made --trt")
    assert holds_call(rendered("run n.py --trt"), "InvokeFromScript(MODEL, name='load_network')")


def test_runners_keep_their_order_and_their_engines() -> None:
    values = parse(RunCommand(), shlex.split("m.onnx --trt-engine a --onnxrt --trt-engine=b --trt"))
    runners = values[RunnerOptions]
    assert runners.runners == ("trt_engine:a", "onnxrt", "trt_engine:b", "trt")
    assert argv_of(runners) == ["--trt-engine", "a", "--onnxrt", "--trt-engine", "b", "--trt"]


def test_an_engine_needs_no_model() -> None:
    program = rendered("run --trt-engine a.plan")
    assert holds_call(program, "TrtRunner(EngineFromPath('a.plan'))")
    assert "MODEL" not in program


def test_an_onnx_file_beside_an_engine_is_not_loaded_twice() -> None:
    program = rendered("run m.onnx --onnxrt --trt --trt-engine e --onnx-outputs a")
    assert calls_of(program) >= {"onnx_from_path", "modify_outputs"}
    assert program.count("onnx_from_path(") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run m.plan --onnxrt", "a model of type engine, which --onnxrt cannot run; --trt can"),
        ("run m.onnx --tf", "which --tf cannot run"),
        ("run m.uff --trt", "type uff, which TensorRT no longer supports"),
        ("run m.prototxt --trt", "Convert it to ONNX"),
        ("run m.onnx --trt --save-tactics a --load-tactics b", "cannot be combined"),
        ("run m.onnx --trt --exclude-lean-runtime", "requires --version-compatible"),
        ("run m.onnx --trt --trt-config-func-name f", "requires --trt-config-script"),
        ("run n.py:f --trt --trt-network-func g", "Use one of them"),
        ("run m.onnx --trt --fp-to-fp16 --to-bf16", "cannot be combined"),
        ("run m.onnx --trt --tactic-sources cubla", "did you mean cublas"),
        ("run m.onnx --trt --pool-limit 1G", "does not select a pool"),
        ("run m.onnx --trt --pool-limit work:1G", "is not a known MemoryPoolType"),
        ("run m.onnx --trt --pool-limit workspace:1Z", "not a size in bytes"),
        ("run m.onnx --trt --pool-limit workspace:1 WORKSPACE:2", "'workspace' has two values"),
        ("run m.onnx --trt --weight-streaming-budget 101%", "not a percentage from 0% to 100%"),
        ("run m.onnx --trt --layer-precisions a:float17", "did you mean float16"),
        ("run m.onnx --trt --precision-constraints strict", "neither one of none, prefer, obey"),
        ("run m.onnx --trt --trt-min-shapes x:[n,3]", "the dimension 'n' is not a number"),
        ("run m.onnx --trt --trt-min-shapes x:[1] x:[2]", "Repeat --trt-min-shapes"),
        ("run m.onnx --trt --trt-min-shapes x:[1] --trt-max-shapes y:[2]", "the same inputs"),
        ("run m.onnx --trt --trt-min-shapes x:[3] --trt-max-shapes x:[2]", "not within max"),
        (
            "run m.onnx --trt --trt-min-shapes x:[1] --trt-min-shapes x:[1] --trt-max-shapes x:[2]",
            "--trt-min-shapes 2 times, --trt-max-shapes 1 times",
        ),
        (
            "run m.onnx --trt --input-shapes x:[1,2] x:[1]",
            "a TensorRT profile cannot contain shapes",
        ),
        ("run m.onnx --trt --save-engine m.onnx", "have the same path"),
        ("run m.onnx --trt-engine e --onnxrt --save-outputs e", "have the same path"),
        ("run --trt", "missing model"),
        ("convert m.onnx", "missing output format"),
        ("convert m.onnx -o m.foo", "does not select a format"),
        ("convert -o m.onnx", "missing model"),
        ("convert m.plan -o n.engine", "which cannot be converted"),
        ("convert n.py -o n.onnx", "type trt-network-script"),
        ("convert m.onnx -o m.onnx", "have the same path"),
        ("convert m.onnx -o n.onnx --save-onnx o.onnx", "because --output sets"),
        ("convert m.onnx -o n.plan --use-gpu --compute-capabilities 8.9", "cannot be combined"),
        ("convert m.onnx -o n.plan --compute-capabilities x", "not a compute capability"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: str, message: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        rendered(words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run m.onnx --onnxrt --fp16 --workspace 1G", "--fp16, --workspace: has no effect"),
        ("run m.plan --trt --fp16", "--fp16: has no effect, because the engine is already built"),
        ("run m.onnx --onnxrt --cuda-graph on", "--cuda-graph: has no effect"),
        ("run m.onnx --onnxrt --device 1", "--device: has no effect"),
        ("run m.onnx --trt --calibration-cache c", "--calibration-cache: has no effect without"),
        ("run m.onnx --trt --int8 --quantile 0.3", "--quantile: has no effect without --calib"),
        ("run m.onnx --trt --workspace 1 --pool-limit workspace:2", "--workspace: has no effect"),
        ("run m.onnx --trt --trt-config-script c.py --fp16 --workspace 1", "--fp16, --workspace:"),
        ("run m.onnx --trt --all-tensor-dtypes half --tensor-dtypes x:half", "--tensor-dtypes:"),
        (
            "convert m.onnx -o e.plan --trt-config-script c.py --engine-capability safety --use-gpu",
            "--engine-capability, --use-gpu: has no effect, because --trt-config-script",
        ),
        ("run m.onnx --trt --allow-gpu-fallback", "--allow-gpu-fallback: has no effect"),
        ("run m.onnx --onnxrt --xla", "--xla: has no effect"),
        ("run m.onnx --onnxrt --opset 13", "--opset: has no effect"),
        ("convert m.onnx -o n.onnx --fp16", "--fp16: has no effect, because the model is conver"),
        ("convert m.onnx -o n.onnx --use-gpu", "--use-gpu: has no effect"),
        ("convert m.onnx -o n.onnx --input-shapes x:[1]", "--input-shapes: has no effect"),
        ("convert m.onnx --convert-to trt", "Saving to m.engine, because --output is not set"),
        ("convert m.onnx -o n.plan --pooled-outputs", "has no effect on the engine"),
    ],
)
def test_what_has_no_effect_is_reported_in_one_line(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rendered(words)
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize("words", ["--onnxrt --fp32", "--trt --fp32", "--trt --fp32 --fp16"])
def test_fp32_changes_nothing(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = words.replace(" --fp32", "")
    program = rendered(f"run m.onnx {words}").partition("from polygraphy")[2]
    assert program == rendered(f"run m.onnx {plain}").partition("from polygraphy")[2]
    assert capsys.readouterr().err == ""


def test_the_smallest_data_are_the_smallest_shapes_where_they_fit() -> None:
    words = "--trt-opt-shapes x:[4,8] --trt-max-shapes x:[8,8] --input-shapes x:[2,8] x:[3,8]"
    expected = "Profile().add('x', min=[2, 8], opt=[4, 8], max=[8, 8])"
    assert holds_call(rendered(f"run m.onnx --trt {words}"), expected)
    words = "--trt-max-shapes x:[4,8] --input-shapes x:[5,8]"
    expected = "Profile().add('x', opt=[4, 8], max=[4, 8])"
    assert holds_call(rendered(f"run m.onnx --trt {words}"), expected)


def test_data_in_several_shapes_lie_in_one_profile() -> None:
    expected = "Profile().add('x', min=[1, 2], opt=[3, 2], max=[3, 4])"
    program = rendered("run m.onnx --trt --input-shapes x:[3,2] x:[1,4]")
    assert holds_call(program, expected)


@given(st.one_of(st.integers(-2, 1 << 50), st.floats(0, 100)))
def test_budgets_survive_the_way_to_words_and_back(value: float) -> None:
    again = Budget().parse(Budget().unparse(value))
    assert again == value and isinstance(again, type(value))


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), min_size=1, unique=True))
def test_compute_capabilities_survive_the_way_to_words_and_back(value: list[object]) -> None:
    kind = ComputeCapabilities()
    assert kind.parse(kind.unparse(value)) == tuple(value)


names = st.text(min_size=1).filter(lambda text: text.strip() == text)


@given(st.dictionaries(names, st.sampled_from(["float16", "float32", "int8"]), min_size=1))
def test_constraints_survive_the_way_to_words_and_back(value: dict[str, str]) -> None:
    assert Constraints().parse(Constraints().unparse(value)) == value


@given(st.text())
def test_any_budget_is_a_number_or_refused(text: str) -> None:
    try:
        value = Budget().parse([text])
    except BadValue:
        return
    assert value >= -2


@pytest.mark.parametrize("command", [RunCommand(), ConvertCommand()])
def test_what_was_given_can_be_given_again(command: RunCommand | ConvertCommand) -> None:
    words = shlex.split(
        "m.onnx --trt-min-shapes x:[1,2] y:[3] --trt-min-shapes x:[2,2] y:[4] --pool-limit"
        " workspace:1G --tensor-formats x:[linear,chw4] --trt-npps a.py b.py:f --int8"
        " --precision-constraints a:fp16 --tactic-sources --workspace 3K"
    )
    values = parse(command, words)
    again = parse(command, [word for group in values for word in argv_of(group)])
    assert list(again) == list(values)


def test_options_for_all_backends_reach_models_that_are_not_onnx() -> None:
    program = rendered("run n.py --trt --mark-all --exclude-outputs z")
    expected = "ModifyNetworkOutputs(_, outputs=MARK_ALL, exclude_outputs=['z'])"
    assert holds_call(program, expected)
    with pytest.raises(CommandLineError, match="no selected runner loads the ONNX model"):
        rendered("run n.py --trt --onnx-outputs a")


def test_an_opset_changes_nothing_in_an_onnx_file() -> None:
    assert holds_call(rendered("run m.onnx --onnxrt --opset 13"), "SessionFromOnnx(MODEL)")


def test_what_a_folder_holds_tells_the_type_of_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    assert "SessionFromOnnx" in calls_of(rendered(f"run {folder} --onnxrt")), "none: that tells"
    (folder / "model.index").touch()
    assert "GraphFromCkpt" in calls_of(rendered(f"run {folder} --tf"))
    (folder / "saved_model.pb").write_bytes(b"")
    assert "GraphFromSavedModel" in calls_of(rendered(f"run {folder} --tf"))
    assert "GraphFromFrozen" in calls_of(rendered("run model.unknown --tf"))
