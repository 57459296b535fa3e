"""For every flag of every command, words that give it a value, and the command line around it.

An entry is ``words``, or ``needed + words`` where the flag only has an effect beside others, or
``old > new`` for what is there already. An option that belongs to several commands has one entry,
unless it is another one there.
"""

from __future__ import annotations

from polygraphy.domain.catalog.metrics import THRESHOLDS

__all__ = [
    "BASES",
    "CHANGED_ON_THE_WAY",
    "CHANGES_NOTHING",
    "GROUP_BASES",
    "REFUSED",
    "WITHOUT_EFFECT",
    "WORDS",
    "WORDS_OF_COMMANDS",
]

_TRT = {
    "run": "m.onnx --trt",
    "convert": "m.onnx -o m.engine",
    "inspect model": "m.onnx --display-as trt",
    "template trt-network": "m.onnx -o -",
}

BASES = {
    "run": "m.onnx --onnxrt --onnx",
    "convert": "m.onnx -o n.onnx",
    "inspect data": "a.json",
    "inspect diff": "a.json b.json",
    "inspect model": "m.onnx",
    "inspect outputs": "m.onnx",
    "inspect sparsity": "m.onnx",
    "inspect capability": "m.onnx",
    "inspect profile": "a.json",
    "inspect tactics": "a.json",
    "inspect diff-tactics": "--dir d",
    "debug diff-tactics": "--dir d",
    "template trt-network": "m.onnx -o -",
    "template trt-config": "-o -",
    "template onnx-gs": "m.onnx -o -",
    "plugin autotune": "m.onnx --plugin-dir d -o n.onnx",
    "plugin list": "m.onnx --plugin-dir d",
    "plugin match": "m.onnx --plugin-dir d",
    "plugin replace": "m.onnx --plugin-dir d -o n.onnx",
    "template shard-hints": "m.onnx -o h.json",
    "multi-device shard": "m.onnx -s h.json -o n.onnx",
    "check accuracy": "a.json",
    "check compatibility": "m.onnx",
    "check lint": "m.onnx",
    "data concat": "a.json b.json -o c.json",
    "data merge": "a.json b.json -o c.json",
    "data to-input": "a.json b.json -o c.json",
    "data convert": "a.json b.npz",
    "surgeon copy": "m.onnx --reference n.onnx -o o.onnx",
    "surgeon extract": "m.onnx --inputs x --outputs y -o n.onnx",
    "surgeon insert": "m.onnx --inputs x --outputs y --op Elu -o n.onnx",
    "surgeon prune": "m.onnx -o n.onnx",
    "surgeon sanitize": "m.onnx -o n.onnx",
    "surgeon weight-reconstruct": "m.onnx -o n.onnx",
    "surgeon weight-strip": "m.onnx -o n.onnx",
    "sweep": "tests/data/sweep/plan.toml",
    "diagnose": "m.onnx --onnxrt",
    "doctor": "",
    "debug build": "m.onnx --until 3 --check true",
    "debug precision": "m.onnx --check true",
    "debug reduce": "m.onnx -o n.onnx --check true",
    "debug repeat": "--until 3 --check true",
}
"""By command a complete command line, of which every flag changes something."""

_EDITS = ("extract", "insert", "prune", "sanitize", "weight-reconstruct", "weight-strip")

GROUP_BASES: dict[str, dict[str, str]] = {
    "TrtProfileOptions": _TRT,
    "TrtPrecisionOptions": _TRT,
    "TrtPartyOptions": {"diagnose": "m.onnx --trt"},
    "TrtCalibrationOptions": _TRT,
    "TrtTacticOptions": _TRT,
    "TrtConfigOptions": _TRT,
    "TrtPlanOptions": _TRT,
    "TrtDeviceOptions": _TRT,
    "TrtCapabilityOptions": _TRT,
    "TrtRtxOptions": _TRT,
    "TrtPoolOptions": _TRT,
    "TrtGpuOptions": _TRT,
    "TrtScriptOptions": _TRT,
    "TrtParserOptions": _TRT,
    "TrtNetworkOptions": _TRT,
    "TrtTensorOptions": _TRT,
    "TrtTypingOptions": _TRT,
    "TrtPluginOptions": _TRT,
    "TrtSaveOptions": _TRT,
    "TrtLoadOptions": {"run": "m.onnx --trt", "inspect model": "m.engine"},
    "TrtRunnerOptions": _TRT,
    "TfLoadOptions": {
        "run": "m.pb --tf",
        "convert": "m.pb -o n.onnx",
        "inspect model": "m.pb",
        "check compatibility": "m.pb --tf",
    },
    "TfSaveOptions": {"run": "m.pb --tf"},
    "TfTrtOptions": {"run": "m.pb --tf"},
    "TfRunnerOptions": {"run": "m.pb --tf"},
    "TfOnnxOptions": {"run": "m.pb --tf --onnxrt", "convert": "m.pb -o n.onnx"},
    "OpenvinoCacheOptions": {"run": "m.onnx --openvino"},
    "OpenvinoOptions": {"run": "m.onnx --openvino", "diagnose": "m.onnx --openvino"},
    "PluginRefOptions": {"run": "m.onnx --pluginref"},
    "TorchOptions": {"run": "m.onnx --onnxrt --torch s.py"},
    "LayerwiseOptions": {"run": "m.onnx --onnxrt --onnx --mark-all"},
    "DataOptions": {
        "convert": "m.onnx -o n.onnx --fp-to-fp16 --verify",
        "template trt-config": "m.onnx -o - --int8",
        "debug build": f"--int8 {BASES['debug build']}",
        "debug precision": f"--int8 {BASES['debug precision']}",
        **{f"surgeon {name}": f"{BASES[f'surgeon {name}']} --verify" for name in _EDITS},
    },
    "TrialShapeOptions": {
        f"surgeon {name}": f"{BASES[f'surgeon {name}']} --verify" for name in _EDITS
    },
    "ShardHintOptions": {"multi-device shard": "m.onnx --one-shot -o n.onnx"},
}
"""By group of options, and by command, another one where the group takes that."""

_ONNX_FLAGS = {
    "OutputOptions": {
        "mark_all": "--mark-all",
        "exclude_outputs": "--mark-all + --exclude-outputs z",
    },
    "OnnxLoadOptions": {
        "external_data_dir": "--external-data-dir weights",
        "ignore_external_data": "--ignore-external-data",
        "onnx_outputs": "--onnx-outputs a b*",
        "onnx_exclude_outputs": "--onnx-exclude-outputs z",
        "onnx_outputs_by_type": "--onnx-outputs-by-type Conv",
    },
    "OnnxCastOptions": {
        "fp_to_fp16": "--fp-to-fp16",
        "to_bf16": "--to-bf16",
        "cast_keep_ops": "--fp-to-fp16 + --cast-keep-ops Softmax",
        "cast_keep_nodes": "--fp-to-fp16 + --cast-keep-nodes node",
        "cast_only_ops": "--fp-to-fp16 + --cast-only-ops MatMul",
        "cast_only_nodes": "--fp-to-fp16 + --cast-only-nodes node",
        "cast_io": "--fp-to-fp16 + --cast-io",
    },
    "OnnxShapeOptions": {
        "shape_inference": "--shape-inference",
        "no_onnxruntime_shape_inference": "--shape-inference + --no-onnxruntime-shape-inference",
    },
    "OnnxSaveOptions": {
        "save_onnx": "--save-onnx s.onnx",
        "save_external_data": "--save-onnx s.onnx + --save-external-data s.data",
        "external_data_size_threshold": (
            "--save-onnx s.onnx --save-external-data + --external-data-size-threshold 1K"
        ),
        "no_save_all_tensors_to_one_file": (
            "--save-onnx s.onnx --save-external-data + --no-save-all-tensors-to-one-file"
        ),
    },
    "ExternalDataOptions": {
        "external_data_dir": "--external-data-dir weights",
        "ignore_external_data": "--ignore-external-data",
    },
}

_RUN_FLAGS = {
    "OnnxrtProviderOptions": {
        "providers": "--providers cuda:device_id=1,use_tf32=0 cpu",
        "provider_libraries": "--provider-library a=a.so b=module --providers a",
    },
    "OnnxrtOptions": {
        "providers": "--providers cuda:device_id=1,use_tf32=0 cpu",
        "provider_libraries": "--provider-library a=a.so b=module --providers a",
        "graph_optimization_level": "--graph-optimization-level enable_basic",
    },
    "OnnxrtModelOptions": {
        "threads": "--intra-op-threads 3",
        "disabled_optimizers": "--disabled-optimizers GeluFusion castelimination",
    },
    "OpenvinoCacheOptions": {"openvino_cache": "--openvino-cache d"},
    "OpenvinoOptions": {
        "openvino_device": "--openvino-device AUTO",
        "openvino_precision": "--openvino-precision bf16",
        "openvino_threads": "--openvino-threads 2",
        "openvino_properties": "--openvino-properties PERF_COUNT=YES A=1",
        "openvino_float32": "--openvino-float32 y",
        "no_openvino_fusion": "--no-openvino-fusion",
    },
    "PluginRefOptions": {"plugin_references": "--plugin-references r.py"},
    "TorchOptions": {
        "torch_compile": "--torch-compile",
        "torch_device": "--torch-device cuda:1",
    },
    "DataOptions": {
        "seed": "--seed 3",
        "val_range": "--val-range [-2,5] x:[7,8]",
        "iterations": "--iterations 3",
        "data_loader_backend_module": "--data-loader-backend-module torch",
        "load_inputs": "--load-inputs in.json more",
        "preprocess": "--load-inputs a.png + --preprocess scale=1/255 mean=0.5:0.4:0.3 layout=nchw",
        "data_loader_script": "--data-loader-script d.py:f",
        "data_loader_func_name": "--data-loader-script d.py + --data-loader-func-name g",
    },
    "StepOptions": {
        "steps": "--steps 5",
        "prompt": "--steps + --prompt 3",
        "state": "--steps + --state hn:h0",
        "tokens": "--steps + --tokens t.txt",
        "first_model": "--steps + --first-model f.onnx",
    },
    "OrderOptions": {
        "sequential_runners": "--sequential-runners",
        "warm_up": "--warm-up 3",
        "use_subprocess": "--use-subprocess",
        "subprocess_timeout": "--use-subprocess + --subprocess-timeout 7.5",
    },
    "ProfileOptions": {
        "profile": "--profile 5",
        "sort": "--profile 5 + --sort difference",
        "profile_rows": "--profile 5 + --profile-rows 0",
        "save_profile": "--profile 5 + --save-profile p.json",
    },
    "InspectProfileOptions": {
        "profiles": "c.json",
        "model": "--model m.onnx",
        "layers": "--layers l.json",
        "other_layers": "b.json + --other-layers l.json",
        "sort": "--sort error",
        "rows": "--rows 3",
    },
    "RunOptions": {
        "save_inputs": "--save-inputs in.json",
        "save_input_blob": "--save-input-blob blobs",
        "save_outputs": "--save-outputs out.json",
    },
    "CompareOptions": {
        "validate": "--validate",
        "load_outputs": "--load-outputs a.json b.json",
        "check_average": "--check-error-stat max + --check-average",
        "save_accuracy_results": "--save-accuracy-results acc.json",
        "samples": "--load-inputs a.png + --samples",
        "labels": "--load-inputs a.png + --labels l.csv",
        "postprocess": "--postprocess top-5 y:top-3,axis=1",
        "postprocess_func_script": "--postprocess-func-script p.py:f",
    },
    "JudgeOptions": {
        "compare": "--compare l2 ulp",
        "compare_func_script": "--compare-func-script c.py:f",
        "fail_fast": "--fail-fast",
        "allow_missing_outputs": "--allow-missing-outputs",
    },
    "SimpleOptions": {
        "rtol": "--rtol 1e-3 y:auto",
        "atol": "--atol y:1e-2",
        "check_error_stat": "--check-error-stat max y:mean",
        "infinities_compare_equal": "--infinities-compare-equal",
        "error_quantile": "--check-error-stat quantile + --error-quantile 0.9",
        "no_shape_check": "--no-shape-check",
    },
    "FunctionOptions": {
        name: f"--compare {name} + {row.flags[0]} {'7 y:3' if row.is_whole else '0.5 y:0.25'}"
        for name, row in THRESHOLDS.items()
    },
    "TopKOptions": {
        "k": "--compare top_k + --top-k 5",
        "margin": "--compare top_k + --top-k-margin y:0.5",
    },
    "LayerwiseOptions": {
        "no_unmarked": "--no-unmarked",
        "memory_budget": "--memory-budget 1K",
        "save_worst": "--save-worst 2 w.safetensors",
        "save_error_by_depth": "--save-error-by-depth depth.svg",
    },
    "PlotOptions": {
        "save_heatmaps": "--save-heatmaps maps",
        "show_heatmaps": "--show-heatmaps",
        "save_error_metrics_plot": "--save-error-metrics-plot plots",
        "show_error_metrics_plot": "--show-error-metrics-plot",
    },
    "ScriptOptions": {"gen_script": "--gen-script p.py"},
    "ReportOptions": {"format": "--format json", "report": "--report r.html --report r.xml"},
    "LogOptions": {
        "verbose": "-vv",
        "quiet": "-q",
        "extra_verbose": "--extra-verbose",
        "verbosity": "--verbosity ERROR backend/onnxrt:VERBOSE",
        "silent": "--silent",
        "log_format": "--log-format timestamp line-info no-colors json",
        "log_file": "--log-file run.log",
        "log_file_verbosity": "--log-file run.log --log-file-verbosity VERBOSE",
    },
    "RunnerOptions": {
        "runners": "--onnx --trt --trt-engine e.plan --pluginref --torch t.py",
    },
    "ModelOptions": {
        "model_file": "m.onnx > q.onnx",
        "model_type": "m.onnx > m --model-type onnx",
        "input_shapes": "--input-shapes x:[5,7]",
    },
}

_TIMING_FLAGS = {
    "timing_cache": "--timing-cache t",
    "load_timing_cache": "--load-timing-cache t",
    "save_timing_cache": "--save-timing-cache t",
    "error_on_timing_cache_miss": "--error-on-timing-cache-miss",
    "disable_compilation_cache": "--disable-compilation-cache",
    "tactic_sources": "--tactic-sources cublas cudnn",
}

_TRT_FLAGS = {
    "TrtProfileOptions": {
        "trt_min_shapes": "--trt-min-shapes x:[1,2]",
        "trt_opt_shapes": "--trt-opt-shapes x:[1,2]",
        "trt_max_shapes": "--trt-max-shapes x:[1,2]",
    },
    "TrtPartyOptions": {
        "fp16": "--fp16",
        "bf16": "--bf16",
        "tf32": "--tf32",
        "int8": "--int8",
        "pool_limit": "--pool-limit workspace:1K dla_local_dram:2",
        "builder_optimization_level": "--builder-optimization-level 5",
    },
    "TrtPrecisionOptions": {
        "fp32": "--fp32",
        "tf32": "--tf32",
        "fp16": "--fp16",
        "bf16": "--bf16",
        "fp8": "--fp8",
        "int8": "--int8",
        "precision_constraints": "--precision-constraints prefer",
        "layer_precisions": "--layer-precisions a:fp16 b:c:float32",
        "strongly_typed": "--strongly-typed",
    },
    "TrtCalibrationOptions": {
        "calibration_cache": "--int8 + --calibration-cache c",
        "calib_base_cls": "--int8 + --calib-base-cls IInt8MinMaxCalibrator",
        "quantile": "--int8 --calib-base-cls IInt8LegacyCalibrator + --quantile 0.9",
        "regression_cutoff": (
            "--int8 --calib-base-cls IInt8LegacyCalibrator + --regression-cutoff 0.3"
        ),
        "quantization_flags": "--quantization-flags calibrate_before_fusion",
    },
    "TrtTimingOptions": _TIMING_FLAGS,
    "TrtTacticOptions": {
        **_TIMING_FLAGS,
        "save_tactics": "--save-tactics t",
        "load_tactics": "--load-tactics t",
        "exclude_tactics": "--exclude-tactics t",
    },
    "TrtConfigOptions": {
        "workspace": "--workspace 1.5K",
        "pool_limit": "--pool-limit workspace:1K dla_local_dram:2",
        "builder_optimization_level": "--builder-optimization-level 5",
        "tiling_optimization_level": "--tiling-optimization-level full",
        "max_aux_streams": "--max-aux-streams 7",
        "sparse_weights": "--sparse-weights",
        "preview_features": "--preview-features profile_sharing_0806",
        "profiling_verbosity": "--profiling-verbosity none",
        "direct_io": "--direct-io",
    },
    "TrtPlanOptions": {
        "refittable": "--refittable",
        "strip_plan": "--strip-plan",
        "weight_streaming": "--weight-streaming",
        "version_compatible": "--version-compatible",
        "exclude_lean_runtime": "--version-compatible + --exclude-lean-runtime",
        "hardware_compatibility_level": "--hardware-compatibility-level ampere_plus",
        "runtime_platform": "--runtime-platform windows_amd64",
    },
    "TrtDeviceOptions": {
        "use_dla": "--use-dla",
        "allow_gpu_fallback": "--use-dla + --allow-gpu-fallback",
        "trt_safety_restricted": "--trt-safety-restricted",
    },
    "TrtCapabilityOptions": {"engine_capability": "--engine-capability dla_standalone"},
    "TrtRtxOptions": {
        "use_gpu": "--use-gpu",
        "compute_capabilities": "--compute-capabilities 8.9",
    },
    "TrtPoolOptions": {"pooled_outputs": "--pooled-outputs"},
    "TrtGpuOptions": {"device": "--device 1"},
    "TrtScriptOptions": {
        "trt_config_script": "--trt-config-script c.py:f",
        "trt_config_func_name": "--trt-config-script c.py + --trt-config-func-name g",
        "trt_config_postprocess_script": "--trt-config-postprocess-script c.py:f",
    },
    "TrtParserOptions": {
        "onnx_flags": "--onnx-flags native_instancenorm",
        "plugin_instancenorm": "--plugin-instancenorm",
        "enable_uint8_asymmetric_quantization_dla": "--enable-uint8-asymmetric-quantization-dla",
    },
    "TrtNetworkOptions": {
        "trt_outputs": "--trt-outputs a b*",
        "trt_exclude_outputs": "--trt-exclude-outputs z",
        "trt_outputs_by_type": "--trt-outputs-by-type convolution",
        "trt_network_func_name": "m.onnx > m.py + --trt-network-func-name g",
        "trt_network_postprocess_script": "--trt-network-postprocess-script p.py q.py:f",
        "decomposable_attentions": "--decomposable-attentions",
        "mark_debug": "--mark-debug a b",
        "mark_unfused_tensors_as_debug_tensors": "--mark-unfused-tensors-as-debug-tensors",
    },
    "TrtTypingOptions": {
        "layer_precisions": "--layer-precisions a:fp16 b:c:float32",
        "strongly_typed": "--strongly-typed",
    },
    "TrtTensorOptions": {
        "tensor_dtypes": "--tensor-dtypes x:half",
        "all_tensor_dtypes": "--all-tensor-dtypes bf16",
        "tensor_formats": "--tensor-formats x:[linear,chw4]",
        "all_tensor_formats": "--all-tensor-formats linear hwc8",
    },
    "TrtPluginOptions": {"plugins": "--plugins a.so b.so"},
    "TrtSaveOptions": {"save_engine": "--save-engine e.plan"},
    "TrtLoadOptions": {
        "load_runtime": "--load-runtime l.so",
        "dla_workspace_allocation_strategy": "--dla-workspace-allocation-strategy shared_static",
    },
    "TrtRunnerOptions": {
        "optimization_profile": "--optimization-profile 1",
        "allocation_strategy": "--allocation-strategy profile",
        "weight_streaming_budget": "--weight-streaming-budget 1K",
        "cuda_graph": "--cuda-graph on",
        "device": "--device 1",
        "device_times": "--device-times",
    },
    "TfLoadOptions": {
        "ckpt": "--model-type ckpt + --ckpt c",
        "tf_outputs": "--tf-outputs a b",
        "freeze_graph": "--freeze-graph",
    },
    "TfSaveOptions": {"save_pb": "--save-pb p.pb", "save_tensorboard": "--save-tensorboard board"},
    "TfTrtOptions": {
        "tftrt": "--tftrt",
        "minimum_segment_size": "--tftrt + --minimum-segment-size 3",
        "dynamic_op": "--tftrt + --dynamic-op",
    },
    "TfRunnerOptions": {
        "gpu_memory_fraction": "--gpu-memory-fraction 0.5",
        "allow_growth": "--allow-growth",
        "xla": "--xla",
        "save_timeline": "--save-timeline traces",
    },
    "TfOnnxOptions": {"opset": "--opset 13"},
}

_INSPECTING_FLAGS = {
    "InspectedOptions": {"paths": "a.json > b.json c.json"},
    "DetailOptions": {
        "all_iterations": "--all",
        "statistics": "--statistics",
        "show_values": "--show-values",
        "histogram": "--histogram",
        "num_items": "--show-values + --num-items 7",
        "line_width": "--show-values + --line-width 60",
    },
    "ReferenceOptions": {"reference": "a.json > c.json", "candidate": "b.json > c.json"},
    "InspectedModelOptions": {
        "paths": "m.onnx > n.onnx q.onnx",
        "model_type": "m.onnx > m --model-type onnx",
        "display_as": "--display-as trt",
    },
    "ModelDetailOptions": {
        "show": "--show layers attrs",
        "mode": "--mode full",
        "show_weights": "--show-weights",
        "stats": "--stats",
        "list_unbounded_dds": "--list-unbounded-dds",
        "reference": "--reference f.onnx",
        "load_inputs": "--load-inputs a.json",
        "combine_tensor_info": "--show layers + --combine-tensor-info info.json",
    },
    "PageOptions": {
        "visual": "--visual",
        "visual_port": "--visual + --visual-port 7",
        "save_visual": "--save-visual page.html",
        "visual_errors": "--visual + --visual-errors r.json",
    },
    "OneModelOptions": {"path": "m.onnx > q.onnx"},
    "TensorOptions": {"names": "--names a b*"},
    "CapabilityOptions": {
        "with_partitioning": "--with-partitioning",
        "output": "--output parts",
        "save_external_data": "--save-external-data _weights",
        "external_data_size_threshold": "--save-external-data + --external-data-size-threshold 1K",
        "no_save_all_tensors_to_one_file": (
            "--save-external-data + --no-save-all-tensors-to-one-file"
        ),
    },
    "ReplayOptions": {"tactic_replay": "a.json > b.json"},
    "ComparedReplaysOptions": {
        "replays": "--dir d > good.json bad.json",
        "dir": "--dir d > --dir e",
        "good": "--dir d > --good g.json --bad b.json",
        "bad": "--dir d > --good g.json --bad b.json",
    },
    "TemplateOptions": {"output": "-o p.py"},
    "LintedModelOptions": {"paths": "m.onnx > q.onnx", "input_shapes": "--input-shapes x:[5,7]"},
    "CheckedModelOptions": {"path": "m.onnx > q.onnx", "input_shapes": "--input-shapes x:[5,7]"},
    "LintOptions": {"output": "--output lint.json", "ignore": "--ignore graph/cycle"},
    "BackendOptions": {"backends": "--onnx"},
}

_EDITING_FLAGS = {
    "EditSaveOptions": {
        "output": "-o s.onnx",
        "save_external_data": "--save-external-data s.data",
        "external_data_size_threshold": "--save-external-data + --external-data-size-threshold 1K",
        "no_save_all_tensors_to_one_file": (
            "--save-external-data + --no-save-all-tensors-to-one-file"
        ),
    },
    "EditedModelOptions": {
        "model_file": "m.onnx > q.onnx",
        "external_data_dir": "--external-data-dir weights",
        "ignore_external_data": "--ignore-external-data",
    },
    "ConvertOptions": {"output": "-o s.onnx", "convert_to": "--convert-to trt"},
    "VerifyOptions": {"verify": "--verify"},
    "TrialShapeOptions": {"model_input_shapes": "--model-input-shapes x:[5,7]"},
    "ExtractOptions": {
        "inputs": "--inputs a:[5,N]:float16 b:auto:auto",
        "outputs": "--outputs a:float32 c",
        "model_input_shapes": "--model-input-shapes x:[5,7]",
    },
    "FallbackOptions": {"force_fallback_shape_inference": "--force-fallback-shape-inference"},
    "InsertOptions": {
        "inputs": "--inputs a b",
        "outputs": "--outputs c d",
        "op": "--op Relu",
        "name": "--name node",
        "attrs": "--attrs alpha=0.5 axis=7 mode=linear",
    },
    "CopyOptions": {"reference": "--reference r.onnx", "nodes": "--nodes a b"},
    "PruneOptions": {"remove_node_types": "--remove-node-types Dropout"},
    "FoldOptions": {
        "fold_constants": "--fold-constants",
        "num_passes": "--fold-constants + --num-passes 3",
        "partitioning": "--fold-constants + --partitioning recursive",
        "no_fold_shapes": "--fold-constants + --no-fold-shapes",
        "no_per_pass_shape_inference": "--fold-constants + --no-per-pass-shape-inference",
        "fold_size_threshold": "--fold-constants + --fold-size-threshold 1K",
    },
    "SanitizeOptions": {
        "cleanup": "--cleanup",
        "simplify": "--simplify",
        "toposort": "--toposort",
        "upper_bounds": "--set-unbounded-dds-upper-bound 1000 a:5",
    },
    "SanitizeOutputOptions": {
        "outputs": "--outputs a b*",
        "exclude_outputs": "--exclude-outputs z",
        "outputs_by_type": "--outputs-by-type Conv",
    },
    "SanitizeShapeOptions": {
        "no_shape_inference": "--no-shape-inference",
        "no_onnxruntime_shape_inference": "--no-onnxruntime-shape-inference",
        "override_input_shapes": "--override-input-shapes x:[5,N]",
    },
    "StripOptions": {"exclude_list": "--exclude-list names.txt"},
    "PluginFolderOptions": {"plugin_dir": "--plugin-dir e"},
    "PluginChoiceOptions": {"include": "--include a b", "exclude": "--exclude a b"},
    "MatchOutputOptions": {"output": "-o c.yaml"},
    "ReplaceOptions": {"config": "--config c.yaml", "output": "-o s.onnx"},
    "TuningPluginOptions": {
        "plugin_libraries": "--plugin-libraries a.so",
        "python_plugins": "--python-plugins r.py",
    },
    "TuningConfigOptions": {
        "save_config_yaml": "--save-config-yaml c.yaml",
        "load_config_yaml": "--load-config-yaml c.yaml",
        "skip_autotuning": "--skip-autotuning",
    },
    "TuningOptions": {
        "autotune_mode": "--autotune-mode exhaustive",
        "max_combinations": "--autotune-mode exhaustive + --max-combinations 7",
        "threshold": "--autotune-mode exhaustive + --threshold 0.5",
        "rtol": "--rtol 0.5",
        "atol": "--atol 0.5",
        "no_timing_cache": "--no-timing-cache",
    },
    "HintOutputOptions": {"output": "-o s.json"},
    "HintSourceOptions": {"hint": "-s s.json", "one_shot": "-s h.json > --one-shot"},
    "ShardHintOptions": {
        "parallelism": "--nb-rank 2 + --parallelism TP",
        "nb_rank": "--nb-rank 4",
        "root": "--root 1",
        "gpus": "--gpus 3",
        "groups": "--groups 0 1",
        "cp_type": "--cp-type fused",
        "no_suggest_io": "--no-suggest-io",
        "i_idx": "--i-idx 1",
        "o_idx": "--o-idx 1",
        "k_idx": "--k-idx 3",
        "v_idx": "--v-idx 2",
        "i_rank": "--i-rank 3",
        "o_rank": "--o-rank 3",
        "kv_rank": "--kv-rank 4",
        "reduce_op": "--reduce-op avg",
        "attention_pattern": "--attention-pattern 1",
        "q_shuffle": "--cp-type fused + --q-shuffle 0 2 1 3",
        "k_shuffle": "--cp-type fused + --k-shuffle 0 2 1 3",
        "v_shuffle": "--cp-type fused + --v-shuffle 0 2 1 3",
        "is_causal": "--cp-type fused + --is-causal",
    },
    "JoinOptions": {"paths": "b.json > d.json e.json", "output": "-o s.json"},
    "RejudgeOptions": {
        "path": "a.json > b.json",
        "rtol": "--rtol 0.5 y:0.25",
        "atol": "--atol y:0.25",
        "check_error_stat": "--check-error-stat max y:mean",
        "compare": "--compare simple l2",
        "check_average": "--check-average",
    },
}

_DEBUGGING_FLAGS = {
    "UntilOptions": {
        "until": "--until 3 > --until good",
        "num_iterations": "--until 3 > --num-iterations 7",
    },
    "CheckOptions": {
        "check": "--check true > --check false x",
        "fail_codes": "--fail-code 7 8",
        "ignore_fail_codes": "--ignore-fail-code 7 8",
        "skip_codes": "--skip-code 7",
        "fail_regex": "--fail-regex a.b",
        "check_timeout": "--check-timeout 7.5",
        "show_output": "--show-output",
        "hide_fail_output": "--hide-fail-output",
        "check_runs": "--check-runs 3",
        "check_logs": "--check-logs d",
    },
    "ArtifactOptions": {
        "artifacts": "--artifacts a b",
        "art_dir": "--artifacts a + --art-dir d",
    },
    "EngineIterationOptions": {
        "iter_artifact": "--iter-artifact i.engine",
        "no_remove_intermediate": "--no-remove-intermediate",
        "iter_info": "--iter-info i.json",
    },
    "ModelIterationOptions": {
        "iter_artifact": "--iter-artifact i.onnx",
        "no_remove_intermediate": "--no-remove-intermediate",
        "iter_info": "--iter-info i.json",
    },
    "IterationInfoOptions": {"iter_info": "--iter-info i.json"},
    "HalfOptions": {
        "fp_to_fp16": "--fp-to-fp16",
        "to_bf16": "--to-bf16",
        "rtol": "--fp-to-fp16 + --rtol 0.5",
        "atol": "--fp-to-fp16 + --atol 0.5",
    },
    "PrecisionSearchOptions": {
        "onnxrt": "--onnxrt",
        "mode": "--mode linear",
        "direction": "--dir reverse",
        "precision": "--int8 --fp16 + --precision float16",
    },
    "GoldenOptions": {
        "golden_outputs": "--check true > --golden-outputs g.json",
        "rtol": "--check true > --golden-outputs g.json + --rtol 0.5 y:0.25",
        "atol": "--check true > --golden-outputs g.json + --atol 0.5 y:0.25",
        "save_layer_outputs": "--check true > --golden-outputs g.json + --save-layer-outputs l.json",
    },
    "DebugReplayOptions": {
        "load_debug_replay": "--load-debug-replay r.json",
        "save_debug_replay": "--save-debug-replay r.json",
    },
    "ReduceOptions": {
        "mode": "--mode linear",
        "no_reduce_inputs": "--no-reduce-inputs",
        "no_reduce_outputs": "--no-reduce-outputs",
        "all": "--all",
        "jobs": "--jobs 3",
    },
    "ReducedModelOptions": {
        "min_good": "--min-good g.onnx",
        "save_inputs": "--save-inputs in.json",
    },
    "ReducedShapeOptions": {
        "model_input_shapes": "--model-input-shapes x:[5,7]",
        "no_shape_inference": "--no-shape-inference",
        "no_onnxruntime_shape_inference": "--no-onnxruntime-shape-inference",
    },
}

WORDS: dict[str, dict[str, str]] = {
    **_ONNX_FLAGS,
    **_RUN_FLAGS,
    **_TRT_FLAGS,
    **_INSPECTING_FLAGS,
    **_EDITING_FLAGS,
    **_DEBUGGING_FLAGS,
    "PartyOptions": {"parties": "--onnxrt > --onnx"},
    "PlanOptions": {
        "path": "tests/data/sweep/plan.toml > tests/data/sweep/other.toml",
        "only": "--only a.onnx */fp16",
        "dry_run": "--dry-run",
    },
    "EngineOptions": {
        "engine": "--engine ray",
        "jobs": "--jobs 3",
        "timeout": "--timeout 61",
        "memory": "--memory 1K",
        "shard": "--shard 2/3",
        "times": "--shard 2/3 + --times t.json",
    },
    "SweepFolderOptions": {"folder": "--folder f", "resume": "--resume"},
    "JudgmentOptions": {
        "repeat_failed": "--repeat-failed 2",
        "baseline": "--baseline b.json",
        "known": "--known tests/data/sweep/known.toml",
        "strict": "--known tests/data/sweep/known.toml + --strict",
        "diagnose": "--diagnose",
        "profile": "--profile 5",
    },
    "HandoverOptions": {
        "save_culprit": "--save-culprit c",
        "issue": "--issue i.md",
        "environments": "--environments e f/bin/python",
    },
    "MemoryOptions": {"memory_budget": "--memory-budget 1K"},
    "ComparedOptions": {"reference": "--reference r.onnx", "golden": "--golden g.json h.npz"},
    "ProgramOptions": {
        "program": "--torch net.pt2",
        "device": "--torch net.pt2 --torch-device cuda:1",
    },
    "QuantizedOptions": {
        "within": "--reference r.onnx + --within 0.1",
        "metric": "--reference r.onnx --within 0.1 + --metric kl",
        "save": "--reference r.onnx --within 0.1 + --save s.onnx",
        "budget": "--reference r.onnx --within 0.1 + --budget 30",
    },
}
"""By group of options and by option."""

WORDS_OF_COMMANDS: dict[tuple[str, str], str] = {
    ("debug precision", "TrtPrecisionOptions.fp16"): "--int8 + --fp16",
    ("template trt-config", "ModelOptions.model_file"): "m.onnx",
    ("template trt-config", "ModelOptions.model_type"): "m --model-type onnx",
    ("data convert", "ConvertOptions.path"): "a.json > q.json",
    ("data convert", "ConvertOptions.output"): "b.npz > c.npz",
    ("convert", "ModelOptions.input_shapes"): ("--fp-to-fp16 --verify + --input-shapes x:[5,7]"),
    ("convert", "OnnxSaveOptions.save_onnx"): "n.onnx > n.engine + --save-onnx s.onnx",
    ("convert", "OnnxSaveOptions.save_external_data"): "--save-external-data s.data",
    ("convert", "OnnxSaveOptions.external_data_size_threshold"): (
        "--save-external-data + --external-data-size-threshold 1K"
    ),
    ("convert", "OnnxSaveOptions.no_save_all_tensors_to_one_file"): (
        "--save-external-data + --no-save-all-tensors-to-one-file"
    ),
    ("convert", "ConvertOptions.convert_to"): "n.onnx > n --convert-to onnx",
    **{  # They leave out what comes after the first data.
        (command, "DataOptions.load_inputs"): "--load-inputs in.json"
        for command in ("check compatibility", "check lint", "debug reduce", "plugin autotune")
    },
}
"""The same for one command, by command and ``Group.option``."""

for _name, _entry in WORDS["FunctionOptions"].items():
    WORDS_OF_COMMANDS["check accuracy", f"FunctionOptions.{_name}"] = _entry.split(" + ")[1]

CHANGES_NOTHING = {"TrtPrecisionOptions.fp32", "TuningOptions.no_timing_cache"}
"""Options that only say what is so anyway."""

REFUSED = {("check accuracy", "FunctionOptions.indices")}
"""Options of a command that it has only to say that it cannot."""

WITHOUT_EFFECT: set[tuple[str, str]] = {
    ("convert", "TrtPoolOptions.pooled_outputs"),
    ("template trt-network", "ModelOptions.input_shapes"),
    *(
        ("template trt-network", f"TrtPrecisionOptions.{name}")
        for name in ("tf32", "fp16", "bf16", "fp8", "int8", "precision_constraints")
    ),
    ("template trt-config", "TrtPrecisionOptions.layer_precisions"),
    ("template trt-config", "TrtPrecisionOptions.strongly_typed"),
    ("template trt-config", "TrtTacticOptions.save_timing_cache"),
    *(
        (command, "DataOptions.iterations")
        for command in ("check compatibility", "check lint", "debug reduce", "plugin autotune")
    ),
}
"""Options of a command that have no effect on their own there, which it says."""

CHANGED_ON_THE_WAY = {
    "ConvertOptions.convert_to",
    "GoldenOptions.atol",
    "GoldenOptions.rtol",
    "JudgeOptions.compare",
    "JudgmentOptions.known",
    "LogOptions.log_format",
    "LogOptions.verbosity",
    "ModelDetailOptions.mode",
    "ModelOptions.model_type",
    "PlanOptions.path",
}
"""Options whose value the program says in other words."""
