"""Command lines that users type for `run` and `convert`, and calls that their programs hold.

``_`` stands for any argument; a call that begins with ``not`` must not be there.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

_ONNXRT = "OnnxrtRunner(SessionFromOnnx(MODEL))"
_TRT = "TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(MODEL)))"
_STATIC = "[1, 3, 224, 224]"
_DYNAMIC = (
    "Profile().add('input', min=[1, 3, 224, 224], opt=[4, 3, 224, 224], max=[8, 3, 224, 224])"
)
_NETWORK = "NetworkFromOnnxPath(MODEL)"
_BUILD = "EngineBytesFromNetwork(load_network, config=create_config)"


def _config(arguments: str) -> str:
    return f"EngineFromNetwork({_NETWORK}, config=CreateConfig({arguments}))"


COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "C001": ("run model.onnx --onnxrt --trt", (_ONNXRT, _TRT)),
    "C002": (
        "run model.onnx --onnx --onnxrt --trt",
        ("OnnxReferenceRunner(OnnxFromPath(MODEL))", _ONNXRT, _TRT),
    ),
    "C003": (
        "run model.onnx --onnxrt --trt --trt-min-shapes input:[1,3,224,224]",
        (f"Profile().add('input', min={_STATIC}, opt={_STATIC}, max={_STATIC})",),
    ),
    "C004": (
        "run model.onnx --onnxrt --trt --mark-all",
        (
            "modify_outputs(onnx_from_path(MODEL), outputs=MARK_ALL)",
            "ModifyNetworkOutputs(parse_network, outputs=MARK_ALL)",
            "NetworkFromOnnxModel(model)",
        ),
    ),
    "C005": (
        "run model.onnx --onnxrt --trt --onnx-outputs output1 output2",
        (
            "modify_outputs(onnx_from_path(MODEL), outputs=['output1', 'output2'])",
            "OnnxrtRunner(SessionFromOnnx(model))",
            "TrtRunner(EngineFromNetwork(NetworkFromOnnxModel(model)))",
        ),
    ),
    "C006": (
        "run model.onnx --onnxrt --trt --load-inputs inputs.json",
        ("StreamingDataLoader(['inputs.json'])", _TRT),
    ),
    "C007": (
        "run model.onnx --onnxrt --trt --data-loader-script data_loader.py",
        ("InvokeFromScript('data_loader.py', name='load_data')", _TRT),
    ),
    "C008": (
        "run model.onnx --onnxrt --trt --input-shapes input:[1,3,224,224]",
        (
            f"Profile().add('input', min={_STATIC}, opt={_STATIC}, max={_STATIC})",
            f"TensorMetadata().add('input', dtype=None, shape={_STATIC})",
        ),
    ),
    "C009": (
        "run resnet50.onnx --onnxrt --trt --workspace 1G",
        ("CreateConfig(memory_pool_limits={'workspace': 1073741824})",),
    ),
    "C010": ("run resnet50.onnx --onnxrt --trt --verbose", (_TRT,)),
    "C011": (
        "run model.onnx --onnxrt --trt --trt-min-shapes input:[1,3,224,224] --trt-opt-shapes"
        " input:[4,3,224,224] --trt-max-shapes input:[8,3,224,224] --input-shapes"
        " input:[4,3,224,224]",
        (_DYNAMIC, "TensorMetadata().add('input', dtype=None, shape=[4, 3, 224, 224])"),
    ),
    "C012": (
        "run model.onnx --onnxrt --trt --int8 --calibration-cache calib.cache --save-outputs"
        " int8_outputs.json",
        (
            "Calibrator(data_loader, cache='calib.cache')",
            "CreateConfig(int8=True, calibrator=calibrator)",
            "Comparator.run(runners, data_loader, save_outputs_path='int8_outputs.json',"
            " streaming=True)",
        ),
    ),
    "C013": (
        "run model.onnx --onnxrt --trt --load-inputs real_data.json --save-outputs results.json",
        (_TRT, "StreamingDataLoader(['real_data.json'])"),
    ),
    "C014": (
        r"run model.onnx --onnxrt --trt --onnx-outputs mark\ all --save-outputs layer_outputs.json",
        ("modify_outputs(onnx_from_path(MODEL), outputs=MARK_ALL)", "not ModifyNetworkOutputs"),
    ),
    "C015": (
        "run model.onnx --onnxrt --trt --onnx-outputs conv1_output relu1_output"
        " --onnx-exclude-outputs final_output",
        (
            "modify_outputs(_, outputs=['conv1_output', 'relu1_output'],"
            " exclude_outputs=['final_output'])",
        ),
    ),
    "C016": (
        "run model.onnx --onnxrt --trt --fp16 --rtol 1e-3 --atol 1e-3"
        " --builder-optimization-level 5 --save-engine optimized_fp16.engine",
        (
            "CreateConfig(fp16=True, builder_optimization_level=5)",
            "SaveEngine(build_engine, path='optimized_fp16.engine')",
            "SimpleCompareFunc(rtol=1e-3, atol=1e-3)",
        ),
    ),
    "C017": (
        "run model.onnx --trt --strongly-typed --weight-streaming --weight-streaming-budget 1G"
        " --pool-limit workspace:2G --max-aux-streams 4",
        (
            "NetworkFromOnnxPath(MODEL, strongly_typed=True)",
            "CreateConfig(memory_pool_limits={'workspace': 2147483648}, max_aux_streams=4,"
            " weight_streaming=True)",
            "TrtRunner(build_engine, weight_streaming_budget=1073741824)",
        ),
    ),
    "C018": (
        "run model.onnx --onnxrt --trt --int8 --data-loader-script calibration_data.py"
        " --calibration-cache int8.cache --calib-base-cls IInt8MinMaxCalibrator --rtol 5e-2 --atol"
        " 1e-2",
        (
            "Calibrator(data_loader, cache='int8.cache', BaseClass='IInt8MinMaxCalibrator')",
            "InvokeFromScript('calibration_data.py', name='load_data')",
            "Comparator.run(runners, data_loader, streaming=True)",
        ),
    ),
    "C019": ("run model.onnx --onnxrt --trt --gen-script debug_comparison.py", (_ONNXRT, _TRT)),
    "C020": (
        "run model.onnx --onnxrt --trt --verbose --verbose --log-format timestamp line-info"
        " --log-file debug.log",
        (_TRT,),
    ),
    "C021": (
        "run model.onnx --onnxrt --trt --validate --fail-fast --save-heatmaps error_analysis/"
        " --save-error-metrics-plot plots/ --check-error-stat max mean",
        (_TRT, "Comparator.validate(results, check_inf=True, fail_fast=True)"),
    ),
    "C022 fp32": (
        "run model.onnx --onnxrt --trt --fp32 --save-outputs results/model_fp32.json --rtol 1e-3"
        " --atol 1e-3",
        (_TRT,),
    ),
    "C022 fp16": (
        "run model.onnx --onnxrt --trt --fp16 --save-outputs results/model_fp16.json --rtol 1e-3"
        " --atol 1e-3",
        (_config("fp16=True"),),
    ),
    "C022 int8": (
        "run model.onnx --onnxrt --trt --int8 --save-outputs results/model_int8.json --rtol 1e-3"
        " --atol 1e-3",
        ("Calibrator(data_loader)", "DataLoader()"),
    ),
    "C023": (
        "run model.onnx --load-outputs results/model_fp32.json results/model_fp16.json --compare"
        " simple --rtol 1e-2",
        ("RunResults.load_streaming('results/model_fp32.json')", "not TrtRunner"),
    ),
    "C024": (
        "run multi_input_model.onnx --onnxrt --trt --input-shapes image:[1,3,224,224]"
        " mask:[1,1,224,224] --val-range image:[0,1] mask:[0,1] --data-loader-backend-module torch",
        (
            f"Profile().add('image', min={_STATIC}, opt={_STATIC}, max={_STATIC})"
            ".add('mask', min=[1, 1, 224, 224], opt=[1, 1, 224, 224], max=[1, 1, 224, 224])",
        ),
    ),
    "C025": (
        "run dynamic_model.onnx --onnxrt --trt --trt-min-shapes input:[1,3,224,224]"
        " --trt-opt-shapes input:[4,3,224,224] --trt-max-shapes input:[8,3,224,224] --input-shapes"
        " input:[2,3,224,224] input:[6,3,224,224] --iterations 10",
        (_DYNAMIC, "DataLoader(iterations=10, input_metadata=_)"),
    ),
    "C026": (
        "run model.onnx --onnxrt --trt --workspace 2G",
        ("CreateConfig(memory_pool_limits={'workspace': 2147483648})",),
    ),
    "C027": ("run model.onnx --onnxrt --trt --rtol 1e-3 --atol 1e-3", (_TRT,)),
    "C028": ("run model.onnx --onnxrt --trt --tf32", (_config("tf32=True"),)),
    "C029": (
        "run model.onnx --onnxrt --trt --trt-min-shapes input:[1,3,224,224] --trt-opt-shapes"
        " input:[1,3,224,224] --trt-max-shapes input:[1,3,224,224]",
        (f"Profile().add('input', min={_STATIC}, opt={_STATIC}, max={_STATIC})",),
    ),
    "C030": (
        "run models/a.onnx --onnxrt --trt --save-outputs results/a.onnx.json",
        (_TRT, "Comparator.run(runners, save_outputs_path='results/a.onnx.json', streaming=True)"),
    ),
    "C031": (
        "run model.onnx --onnxrt --trt --warm-up-runs 10 --timing-cache timing.cache",
        (
            "EngineFromNetwork(_, config=CreateConfig(load_timing_cache='timing.cache'),"
            " save_timing_cache='timing.cache')",
            "Comparator.run(runners, warm_up=10)",
        ),
    ),
    "C032": ("run model.onnx --onnxrt --trt -vv --log-file debug.log", (_TRT,)),
    "C033": (
        "run large_model.onnx --onnxrt --trt --pool-limit workspace:4G dla_local_dram:1G"
        " --allocation-strategy runtime --use-subprocess",
        (
            "CreateConfig(memory_pool_limits={'workspace': 4294967296,"
            " 'dla_local_dram': 1073741824})",
            "TrtRunner(_, allocation_strategy='runtime')",
            "Comparator.run(runners, use_subprocess=True)",
        ),
    ),
    "C034": (
        "run huge_model.onnx --trt --weight-streaming --weight-streaming-budget 50%"
        " --strongly-typed --refittable",
        (
            "CreateConfig(refittable=True, weight_streaming=True)",
            "NetworkFromOnnxPath(MODEL, strongly_typed=True)",
            "TrtRunner(_, weight_streaming_percent=50.0)",
        ),
    ),
    "C035": ("run model.onnx --onnxrt --trt --save-outputs fp32_baseline.json", (_TRT,)),
    "C036": (
        "run model.onnx --onnxrt --trt --fp16 --load-outputs fp32_baseline.json --rtol 1e-2 --atol"
        " 1e-3",
        (_config("fp16=True"), "RunResults.load_streaming('fp32_baseline.json')"),
    ),
    "C037": (
        "run model.onnx --onnxrt --trt --int8 --calibration-cache calibration.cache --load-outputs"
        " fp32_baseline.json --rtol 5e-2 --atol 1e-2",
        ("Calibrator(data_loader, cache='calibration.cache')",),
    ),
    "C038": (
        "run model.onnx --onnxrt --trt --fp16 --warm-up 10 --iterations 100 --save-timing-cache"
        " timing.cache --builder-optimization-level 5 --tactic-sources cublas cudnn"
        " --max-aux-streams 4",
        (
            "CreateConfig(fp16=True, tactic_sources=['cublas', 'cudnn'],"
            " builder_optimization_level=5, max_aux_streams=4)",
            "EngineFromNetwork(_, config=_, save_timing_cache='timing.cache')",
            "Comparator.run(runners, data_loader, warm_up=10)",
        ),
    ),
    "C043": (
        "convert clean.onnx --convert-to trt --verbose --extra-verbose --output debug.engine",
        (
            "EngineBytesFromNetwork(load_network)",
            "SaveEngine(build_engine, path='debug.engine')",
        ),
    ),
    "C044": (
        "convert model.onnx --convert-to trt --trt-min-shapes input:[1,3,224,224] --trt-opt-shapes"
        " input:[4,3,224,224] --trt-max-shapes input:[8,3,224,224] --output dynamic.engine",
        (_DYNAMIC, "SaveEngine(build_engine, path='dynamic.engine')"),
    ),
    "C045": (
        "convert model.onnx --convert-to trt --int8 --precision-constraints sensitive_layer:fp16"
        " --calibration-cache calib.cache",
        (
            "SetLayerPrecisions(parse_network, layer_precisions={'sensitive_layer': 'float16'})",
            "CreateConfig(fp16=True, int8=True, calibrator=calibrator,"
            " precision_constraints='obey')",
            "SaveEngine(build_engine, path='model.engine')",
        ),
    ),
    "C046": (
        "convert model.onnx --convert-to trt --workspace 512M",
        ("CreateConfig(memory_pool_limits={'workspace': 536870912})",),
    ),
    "C047": (
        "convert model.onnx --convert-to trt --trt-max-shapes input:[4,3,224,224]",
        ("Profile().add('input', opt=[4, 3, 224, 224], max=[4, 3, 224, 224])",),
    ),
    "C049": (
        "run model.onnx --onnxrt --trt --mark-all --save-outputs layer_outputs.json",
        ("ModifyNetworkOutputs(parse_network, outputs=MARK_ALL)",),
    ),
    "C050": (
        "debug reduce model.onnx --output minimal_problem.onnx",
        (
            "Iterations(AskUser(), artifact='polygraphy_debug.onnx', results=_, save_replay=_)",
            "reduce_model(model, iterations)",
            "save_onnx(reduction.bad, path='minimal_problem.onnx')",
        ),
    ),
    "C053": (
        "convert model.onnx --convert-to trt --fp16 --tf32",
        ("CreateConfig(tf32=True, fp16=True)", _BUILD),
    ),
    "C054": ("convert model.onnx --convert-to trt --fp16", ("CreateConfig(fp16=True)", _BUILD)),
    "C055": (
        "convert model.onnx --convert-to trt --workspace 4G",
        ("CreateConfig(memory_pool_limits={'workspace': 4294967296})",),
    ),
    "C056": (
        "convert model.onnx --convert-to trt --trt-opt-shapes input:[4,3,224,224]",
        ("Profile().add('input', opt=[4, 3, 224, 224], max=[4, 3, 224, 224])",),
    ),
    "C057": (
        "convert model.onnx --convert-to trt --save-tactics tactics.cache",
        ("CreateConfig(algorithm_selector=TacticRecorder('tactics.cache'))",),
    ),
    "C058": (
        "convert model.onnx --convert-to trt --load-tactics tactics.cache",
        ("CreateConfig(algorithm_selector=TacticReplayer('tactics.cache'))",),
    ),
    "C059": ("run model.onnx --onnxrt --trt --save-outputs results.json", (_TRT,)),
    "C060": (
        "debug reduce model.onnx --mode=bisect --output reduced.onnx",
        (
            "reduce_model(model, iterations)",
            "save_onnx(reduction.bad, path='reduced.onnx')",
        ),
    ),
    "C061": (
        "debug precision reduced.onnx --golden-outputs onnxrt_outputs.json --mark-all"
        " --save-layer-outputs analysis.json",
        (
            "ModifyNetworkOutputs(LOAD_NETWORK, outputs=MARK_ALL)",
            "SetLayerPrecisions(load_network, dict.fromkeys(raised, 'float32'))",
            "CheckCommand(shlex.split('polygraphy run polygraphy_debug.engine --trt"
            " --load-outputs onnxrt_outputs.json --save-outputs analysis.json"
            " --allow-missing-outputs'))",
            "find_layers_to_raise(raisable_layers(LOAD_NETWORK), make_engine, iterations)",
        ),
    ),
    "C062": (
        "convert reduced.onnx --convert-to trt --precision-constraints problematic_layer:fp16",
        (
            "CreateConfig(fp16=True, precision_constraints='obey')",
            "SaveEngine(build_engine, path='reduced.engine')",
        ),
    ),
    "C063": (
        "debug build model.onnx --num-iterations 10 --save-tactics multiple.json",
        (
            "CreateConfig(algorithm_selector=TacticRecorder('multiple.json'))",
            "AskUser(otherwise=CheckCommand(shlex.split('polygraphy run polygraphy_debug.engine"
            " --trt --validate')))",
            "Iterations(_, artifact='polygraphy_debug.engine', numbered=['multiple.json'])",
            "repeat(iterations, until=10, make=make_engine)",
        ),
    ),
    "C065": (
        "convert model.onnx --convert-to trt --exclude-tactics bad_tactics.json",
        ("CreateConfig(algorithm_selector=TacticReplayer(exclude='bad_tactics.json'))",),
    ),
    "C072": (
        "convert models/a.onnx --convert-to trt --fp16 --workspace 2G --output engines/a.engine",
        (
            "CreateConfig(fp16=True, memory_pool_limits={'workspace': 2147483648})",
            "SaveEngine(build_engine, path='engines/a.engine')",
        ),
    ),
    "C073": (
        "run models/a.onnx --onnxrt --trt-engine engines/a.engine --save-outputs results/a.json",
        (_ONNXRT, "TrtRunner(EngineFromPath('engines/a.engine'))", "not NetworkFromOnnxPath"),
    ),
    "C075": (
        "convert changed_models/a.onnx --convert-to trt --workspace 1G",
        (
            "CreateConfig(memory_pool_limits={'workspace': 1073741824})",
            "SaveEngine(build_engine, path='a.engine')",
        ),
    ),
    **{
        f"C076 {batch}": (
            f"run model.onnx --trt --input-shapes input:[{batch},3,224,224] --warm-up-runs 10",
            (
                f"Profile().add('input', min=[{batch}, 3, 224, 224], opt=[{batch}, 3, 224, 224],"
                f" max=[{batch}, 3, 224, 224])",
                "Comparator.run(runners, data_loader, warm_up=10)",
            ),
        )
        for batch in (1, 2, 4, 8, 16)
    },
    "C077": (
        "convert model.onnx --convert-to trt --pooled-outputs",
        ("EngineBytesFromNetwork(load_network)",),
    ),
    "C084": (
        "run identity.onnx --trt --onnxrt --save-inputs inputs.json --save-outputs outputs.json",
        (_TRT, _ONNXRT),
    ),
    "C085": (
        "convert identity.onnx --int8 --data-loader-script ./data_loader.py --calibration-cache"
        " identity_calib.cache -o identity.engine",
        (
            "InvokeFromScript('./data_loader.py', name='load_data')",
            "Calibrator(data_loader, cache='identity_calib.cache')",
        ),
    ),
    "C086": (
        "convert identity.onnx --int8 --data-loader-script"
        " ../../../api/04_int8_calibration_in_tensorrt/example.py:calib_data -o identity.engine",
        (
            "InvokeFromScript('../../../api/04_int8_calibration_in_tensorrt/example.py',"
            " name='calib_data')",
            "Calibrator(data_loader)",
        ),
    ),
    "C087": (
        "convert identity.onnx --int8 --calibration-cache identity_calib.cache -o identity.engine",
        ("Calibrator(data_loader, cache='identity_calib.cache')",),
    ),
    "C088": (
        "convert identity.onnx --save-tactics replay.json -o 0.engine",
        ("TacticRecorder('replay.json')", "SaveEngine(build_engine, path='0.engine')"),
    ),
    "C090": (
        "convert identity.onnx --load-tactics replay.json -o 1.engine",
        ("TacticReplayer('replay.json')",),
    ),
    "C091": (
        "convert dynamic_identity.onnx -o dynamic_identity.engine"
        " --trt-min-shapes X:[1,3,28,28] --trt-opt-shapes X:[1,3,28,28]"
        " --trt-max-shapes X:[1,3,28,28]"
        " --trt-min-shapes X:[1,3,28,28] --trt-opt-shapes X:[4,3,28,28]"
        " --trt-max-shapes X:[32,3,28,28]"
        " --trt-min-shapes X:[128,3,28,28] --trt-opt-shapes X:[128,3,28,28]"
        " --trt-max-shapes X:[128,3,28,28]",
        (
            "CreateConfig(profiles=["
            "Profile().add('X', min=[1, 3, 28, 28], opt=[1, 3, 28, 28], max=[1, 3, 28, 28]),"
            "Profile().add('X', min=[1, 3, 28, 28], opt=[4, 3, 28, 28], max=[32, 3, 28, 28]),"
            "Profile().add('X', min=[128, 3, 28, 28], opt=[128, 3, 28, 28],"
            " max=[128, 3, 28, 28])])",
        ),
    ),
    "C092": (
        "convert --fp-to-fp16 -o identity_fp16.onnx identity.onnx",
        (
            "convert_to_fp16(onnx_from_path(MODEL, map_weights=True))",
            "check_model(model)",
            "save_onnx(model, path='identity_fp16.onnx')",
        ),
    ),
    "C094": (
        "run --onnxrt identity.onnx --save-inputs inputs.json --save-outputs outputs_fp32.json",
        (_ONNXRT,),
    ),
    "C095": (
        "run --onnxrt identity_fp16.onnx --load-inputs inputs.json --load-outputs"
        " outputs_fp32.json --atol 0.001 --rtol 0.001",
        (_ONNXRT, "SimpleCompareFunc(rtol=1e-3, atol=1e-3)"),
    ),
    "C096": ("run --onnxrt identity_fp16.onnx --validate", (_ONNXRT,)),
    "C097": ("run identity.onnx --onnxrt --save-outputs golden.json", (_ONNXRT,)),
    "C098": (
        "debug build identity.onnx --fp16 --save-tactics replay.json --artifacts-dir replays"
        " --artifacts replay.json --until=10 --check polygraphy run polygraphy_debug.engine --trt"
        " --load-outputs golden.json",
        (
            "CreateConfig(fp16=True, algorithm_selector=TacticRecorder('replay.json'))",
            "CheckCommand(shlex.split('polygraphy run polygraphy_debug.engine --trt --load-outputs"
            " golden.json'))",
            "Iterations(_, artifact='polygraphy_debug.engine', artifacts=['replay.json'],"
            " artifacts_dir='replays')",
            "repeat(iterations, until=10, make=make_engine)",
        ),
    ),
    "C098 check": (
        "run polygraphy_debug.engine --trt --load-outputs golden.json",
        ("TrtRunner(EngineFromPath(MODEL))", "RunResults.load_streaming('golden.json')"),
    ),
    "C102": ("run dynamic_identity.onnx --trt --onnxrt", (_TRT, _ONNXRT)),
    "C103": (
        "run dynamic_identity.onnx --trt --onnxrt --input-shapes X:[1,2,4,4]",
        ("Profile().add('X', min=[1, 2, 4, 4], opt=[1, 2, 4, 4], max=[1, 2, 4, 4])",),
    ),
    "C104": (
        "run dynamic_identity.onnx --trt --onnxrt --trt-min-shapes X:[1,2,28,28] --trt-opt-shapes"
        " X:[1,2,28,28] --trt-max-shapes X:[1,2,28,28] --data-loader-script data_loader.py",
        (
            "Profile().add('X', min=[1, 2, 28, 28], opt=[1, 2, 28, 28], max=[1, 2, 28, 28])",
            "InvokeFromScript('data_loader.py', name='load_data')",
        ),
    ),
    "C105": (
        "run dynamic_identity.onnx --trt --onnxrt --trt-min-shapes X:[1,2,28,28] --trt-opt-shapes"
        " X:[1,2,28,28] --trt-max-shapes X:[1,2,28,28] --load-inputs custom_inputs.json",
        ("StreamingDataLoader(['custom_inputs.json'])",),
    ),
}
