"""What published functions, classes and methods take; written by ``make signatures``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Signature(NamedTuple):
    """Where a name is published, and its arguments in order with their defaults; ``...`` stands for
    an argument that has none, or none that is a literal. `name` is the published name where
    programs import it under another one.
    """

    module: str
    arguments: Mapping[str, Any]
    name: str = ""


SIGNATURES = {
    "AskUser": Signature("polygraphy.debug", {"otherwise": None}),
    "BiasCompareFunc": Signature(
        "polygraphy.comparator",
        {"bias_threshold": None, "check_shapes": None, "fail_fast": None, "find_output_func": None},
    ),
    "Calibrator": Signature(
        "polygraphy.backend.trt",
        {
            "data_loader": ...,
            "cache": None,
            "BaseClass": None,
            "batch_size": None,
            "quantile": None,
            "regression_cutoff": None,
            "algo": None,
        },
    ),
    "CheckCommand": Signature(
        "polygraphy.debug",
        {
            "command": ...,
            "fail_codes": (),
            "ignored_codes": (),
            "fail_regex": (),
            "skip_codes": (125,),
            "show_output": False,
            "hide_fail_output": False,
            "timeout": None,
            "runs": 1,
        },
    ),
    "Comparator.compare_accuracy": Signature(
        "polygraphy.comparator",
        {
            "run_results": ...,
            "fail_fast": None,
            "comparisons": None,
            "compare_func": None,
            "check_average": None,
            "allow_missing_outputs": None,
            "add_to_outputs_path": None,
            "save_worst": None,
            "save_worst_path": None,
            "save_error_by_depth": None,
            "save_accuracy_path": None,
        },
    ),
    "Comparator.postprocess": Signature(
        "polygraphy.comparator", {"run_results": ..., "postprocess_func": ...}
    ),
    "Comparator.run": Signature(
        "polygraphy.comparator",
        {
            "runners": ...,
            "data_loader": None,
            "warm_up": None,
            "use_subprocess": None,
            "subprocess_timeout": None,
            "subprocess_polling_interval": None,
            "save_inputs_path": None,
            "save_outputs_path": None,
            "save_input_blob_path": None,
            "streaming": None,
        },
    ),
    "Comparator.run_layerwise": Signature(
        "polygraphy.comparator",
        {
            "make_runners": ...,
            "model": ...,
            "data_loader": None,
            "exclude_outputs": None,
            "memory_budget": None,
            "save_inputs_path": None,
            "save_input_blob_path": None,
            "unmarked": None,
        },
    ),
    "Comparator.validate": Signature(
        "polygraphy.comparator",
        {"run_results": ..., "check_inf": None, "check_nan": None, "fail_fast": None},
    ),
    "ConvertOpset": Signature("polygraphy.backend.onnx", {"model": ..., "opset": ...}),
    "ConvertToBf16": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "copy": None,
            "keep_ops": (),
            "keep_nodes": (),
            "only_ops": (),
            "only_nodes": (),
            "cast_io": None,
        },
    ),
    "ConvertToFp16": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "copy": None,
            "keep_ops": (),
            "keep_nodes": (),
            "only_ops": (),
            "only_nodes": (),
            "cast_io": None,
        },
    ),
    "CosineSimilarityCompareFunc": Signature(
        "polygraphy.comparator",
        {
            "cosine_similarity_threshold": None,
            "check_shapes": None,
            "fail_fast": None,
            "find_output_func": None,
        },
    ),
    "CreateConfig": Signature(
        "polygraphy.backend.trt",
        {
            "tf32": None,
            "fp16": None,
            "int8": None,
            "fp8": None,
            "bf16": None,
            "calibrator": None,
            "use_dla": None,
            "allow_gpu_fallback": None,
            "profiles": None,
            "precision_constraints": None,
            "load_timing_cache": None,
            "algorithm_selector": None,
            "sparse_weights": None,
            "tactic_sources": None,
            "restricted": None,
            "profiling_verbosity": None,
            "memory_pool_limits": None,
            "refittable": None,
            "strip_plan": None,
            "preview_features": None,
            "engine_capability": None,
            "direct_io": None,
            "builder_optimization_level": None,
            "hardware_compatibility_level": None,
            "max_aux_streams": None,
            "version_compatible": None,
            "exclude_lean_runtime": None,
            "quantization_flags": None,
            "error_on_timing_cache_miss": None,
            "disable_compilation_cache": None,
            "progress_monitor": None,
            "weight_streaming": None,
            "runtime_platform": None,
            "tiling_optimization_level": None,
        },
    ),
    "CreateConfigRTX": Signature(
        "polygraphy.backend.tensorrt_rtx",
        {
            "use_gpu": None,
            "compute_capabilities": None,
            "tf32": None,
            "fp16": None,
            "int8": None,
            "fp8": None,
            "bf16": None,
            "calibrator": None,
            "use_dla": None,
            "allow_gpu_fallback": None,
            "profiles": None,
            "precision_constraints": None,
            "load_timing_cache": None,
            "algorithm_selector": None,
            "sparse_weights": None,
            "tactic_sources": None,
            "restricted": None,
            "profiling_verbosity": None,
            "memory_pool_limits": None,
            "refittable": None,
            "strip_plan": None,
            "preview_features": None,
            "engine_capability": None,
            "direct_io": None,
            "builder_optimization_level": None,
            "hardware_compatibility_level": None,
            "max_aux_streams": None,
            "version_compatible": None,
            "exclude_lean_runtime": None,
            "quantization_flags": None,
            "error_on_timing_cache_miss": None,
            "disable_compilation_cache": None,
            "progress_monitor": None,
            "weight_streaming": None,
            "runtime_platform": None,
            "tiling_optimization_level": None,
        },
    ),
    "CreateNetwork": Signature(
        "polygraphy.backend.trt",
        {
            "explicit_batch": None,
            "strongly_typed": None,
            "mark_unfused_tensors_as_debug_tensors": None,
        },
    ),
    "CreateTfConfig": Signature(
        "polygraphy.backend.tf",
        {"gpu_memory_fraction": None, "allow_growth": None, "use_xla": None},
        "CreateConfig",
    ),
    "DataLoader": Signature(
        "polygraphy.comparator",
        {
            "seed": None,
            "iterations": None,
            "input_metadata": None,
            "val_range": None,
            "data_loader_backend_module": None,
        },
    ),
    "EngineBytesFromNetwork": Signature(
        "polygraphy.backend.trt",
        {"network": ..., "config": None, "save_timing_cache": None, "device": None},
    ),
    "EngineFromNetwork": Signature(
        "polygraphy.backend.trt",
        {
            "network": ...,
            "config": None,
            "save_timing_cache": None,
            "runtime": None,
            "dla_workspace_allocation_strategy": None,
            "device": None,
        },
    ),
    "EngineFromPath": Signature(
        "polygraphy.backend.trt",
        {"path": ..., "runtime": None, "dla_workspace_allocation_strategy": None},
    ),
    "ErrorDistributionCompareFunc": Signature(
        "polygraphy.comparator",
        {
            "error_distribution_threshold": None,
            "check_shapes": None,
            "fail_fast": None,
            "find_output_func": None,
        },
    ),
    "GraphFromCkpt": Signature("polygraphy.backend.tf", {"dir": ..., "name": None}),
    "GraphFromFrozen": Signature("polygraphy.backend.tf", {"path": ...}),
    "GraphFromKeras": Signature("polygraphy.backend.tf", {"path": ...}),
    "GraphFromSavedModel": Signature(
        "polygraphy.backend.tf", {"path": ..., "signature": None, "tags": None}
    ),
    "IndicesCompareFunc": Signature(
        "polygraphy.comparator",
        {"index_tolerance": None, "fail_fast": None, "find_output_func": None},
    ),
    "InferShapes": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "error_ok": None,
            "external_data_dir": None,
            "save_to_disk_threshold_bytes": None,
            "allow_onnxruntime": None,
        },
    ),
    "InvokeFromScript": Signature("polygraphy.backend.common", {"path": ..., "name": ...}),
    "Iterations": Signature(
        "polygraphy.debug",
        {
            "check": ...,
            "artifact": None,
            "keep_artifact": False,
            "artifacts": (),
            "artifacts_dir": "polygraphy_artifacts",
            "numbered": (),
            "results": (),
            "iter_info": None,
            "load_replay": None,
            "save_replay": None,
            "logs": "polygraphy_debug",
            "jobs": 1,
        },
    ),
    "L2CompareFunc": Signature(
        "polygraphy.comparator",
        {"l2_threshold": None, "check_shapes": None, "fail_fast": None, "find_output_func": None},
    ),
    "LoadPlugins": Signature("polygraphy.backend.trt", {"plugins": None, "obj": None}),
    "LoadRuntime": Signature("polygraphy.backend.trt", {"path": ...}),
    "MarkDebug": Signature("polygraphy.backend.trt", {"network": ..., "mark_debug": ...}),
    "ModifyGraphOutputs": Signature("polygraphy.backend.tf", {"graph": ..., "outputs": None}),
    "ModifyNetworkOutputs": Signature(
        "polygraphy.backend.trt",
        {"network": ..., "outputs": None, "exclude_outputs": None, "mark_layer_types": None},
    ),
    "ModifyOutputs": Signature(
        "polygraphy.backend.onnx",
        {"model": ..., "outputs": None, "exclude_outputs": None, "copy": None, "mark_types": None},
    ),
    "NetworkFromOnnxModel": Signature(
        "polygraphy.backend.trt",
        {
            "model": ...,
            "flags": None,
            "plugin_instancenorm": None,
            "strongly_typed": None,
            "mark_unfused_tensors_as_debug_tensors": None,
            "enable_uint8_asymmetric_quantization_dla": None,
            "config": None,
            "cast": None,
            "explicit_precision": None,
        },
    ),
    "NetworkFromOnnxPath": Signature(
        "polygraphy.backend.trt",
        {
            "path": ...,
            "flags": None,
            "plugin_instancenorm": None,
            "strongly_typed": None,
            "mark_unfused_tensors_as_debug_tensors": None,
            "enable_uint8_asymmetric_quantization_dla": None,
            "config": None,
            "cast": None,
            "explicit_precision": None,
        },
    ),
    "NonFiniteCompareFunc": Signature(
        "polygraphy.comparator",
        {
            "non_finite_threshold": None,
            "check_shapes": None,
            "fail_fast": None,
            "find_output_func": None,
        },
    ),
    "NormalizedL2CompareFunc": Signature(
        "polygraphy.comparator",
        {
            "normalized_l2_threshold": None,
            "check_shapes": None,
            "fail_fast": None,
            "find_output_func": None,
        },
    ),
    "OnnxFromPath": Signature(
        "polygraphy.backend.onnx",
        {"path": ..., "external_data_dir": None, "ignore_external_data": None, "map_weights": None},
    ),
    "OnnxFromTfGraph": Signature(
        "polygraphy.backend.onnx", {"graph": ..., "opset": None, "optimize": None}
    ),
    "OnnxParty": Signature("polygraphy.backend.onnx", {}),
    "OnnxReferenceRunner": Signature("polygraphy.backend.onnx", {"model": ..., "name": None}),
    "OnnxrtParty": Signature(
        "polygraphy.backend.onnxrt",
        {
            "providers": None,
            "graph_optimization_level": None,
            "threads": None,
            "disabled_optimizers": None,
        },
    ),
    "OnnxrtRunner": Signature("polygraphy.backend.onnxrt", {"sess": ..., "name": None}),
    "OptimizeGraph": Signature("polygraphy.backend.tf", {"graph": ...}),
    "PerceptualMetricsCompareFunc": Signature(
        "polygraphy.comparator",
        {
            "lpips_threshold": None,
            "check_shapes": None,
            "fail_fast": None,
            "find_output_func": None,
        },
    ),
    "PluginRefRunner": Signature(
        "polygraphy.backend.pluginref", {"graph": ..., "name": None, "references": None}
    ),
    "PostprocessConfig": Signature("polygraphy.backend.trt", {"config": ..., "func": ...}),
    "PostprocessNetwork": Signature(
        "polygraphy.backend.trt", {"network": ..., "func": ..., "name": None}
    ),
    "Profile": Signature("polygraphy.backend.trt", {"dct": None}),
    "Profile.add": Signature(
        "polygraphy.backend.trt", {"name": ..., "min": None, "opt": None, "max": None}
    ),
    "PsnrCompareFunc": Signature(
        "polygraphy.comparator",
        {"psnr_threshold": None, "check_shapes": None, "fail_fast": None, "find_output_func": None},
    ),
    "PytRunner": Signature(
        "polygraphy.backend.pyt",
        {
            "model": ...,
            "input_metadata": None,
            "output_names": None,
            "name": None,
            "compiled": False,
            "device": None,
        },
    ),
    "ReplacePlugins": Signature(
        "polygraphy.plugin", {"model": ..., "plugin_dir": ..., "matches": ...}
    ),
    "RunResults.load_streaming": Signature(
        "polygraphy.comparator", {"path": ..., "allow_dirs": True}
    ),
    "SaveEngine": Signature("polygraphy.backend.trt", {"engine": ..., "path": ...}),
    "SaveGraph": Signature(
        "polygraphy.backend.tf",
        {"graph": ..., "path": None, "tensorboard_dir": None, "engine_dir": None},
    ),
    "SaveOnnx": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "path": ...,
            "external_data_path": None,
            "size_threshold": None,
            "all_tensors_to_one_file": None,
        },
    ),
    "SessionFromGraph": Signature("polygraphy.backend.tf", {"graph": ..., "config": None}),
    "SessionFromOnnx": Signature(
        "polygraphy.backend.onnxrt",
        {
            "model_bytes": ...,
            "providers": None,
            "graph_optimization_level": None,
            "memory_arena": None,
            "threads": None,
            "disabled_optimizers": None,
        },
    ),
    "SetDecomposableAttentions": Signature("polygraphy.backend.trt", {"network": ...}),
    "SetLayerPrecisions": Signature(
        "polygraphy.backend.trt", {"network": ..., "layer_precisions": ..., "calibrator": None}
    ),
    "SetTensorDatatypes": Signature(
        "polygraphy.backend.trt", {"network": ..., "tensor_datatypes": ...}
    ),
    "SetTensorFormats": Signature(
        "polygraphy.backend.trt", {"network": ..., "tensor_formats": ...}
    ),
    "SimpleCompareFunc": Signature(
        "polygraphy.comparator",
        {
            "check_shapes": None,
            "rtol": None,
            "atol": None,
            "fail_fast": None,
            "find_output_func": None,
            "check_error_stat": None,
            "infinities_compare_equal": None,
            "save_heatmaps": None,
            "show_heatmaps": None,
            "save_error_metrics_plot": None,
            "show_error_metrics_plot": None,
            "error_quantile": None,
        },
    ),
    "SnrCompareFunc": Signature(
        "polygraphy.comparator",
        {"snr_threshold": None, "check_shapes": None, "fail_fast": None, "find_output_func": None},
    ),
    "SqnrCompareFunc": Signature(
        "polygraphy.comparator",
        {"sqnr_threshold": None, "check_shapes": None, "fail_fast": None, "find_output_func": None},
    ),
    "StreamingDataLoader": Signature("polygraphy.comparator", {"paths": ..., "allow_dirs": True}),
    "TacticRecorder": Signature("polygraphy.backend.trt", {"record": ..., "exclude": None}),
    "TacticReplayer": Signature("polygraphy.backend.trt", {"replay": None, "exclude": None}),
    "TfRunner": Signature(
        "polygraphy.backend.tf", {"sess": ..., "timeline_dir": None, "name": None}
    ),
    "TopKCompareFunc": Signature(
        "polygraphy.comparator",
        {
            "agreement_threshold": None,
            "k": None,
            "margin": None,
            "check_shapes": None,
            "fail_fast": None,
            "find_output_func": None,
        },
    ),
    "TopKPostprocessFunc": Signature("polygraphy.comparator", {"k": None}),
    "TorchFromPath": Signature("polygraphy.backend.pyt", {"path": ...}),
    "TrtParty": Signature(
        "polygraphy.backend.trt",
        {
            "fp16": None,
            "bf16": None,
            "tf32": None,
            "memory_pool_limits": None,
            "builder_optimization_level": None,
        },
    ),
    "TrtRunner": Signature(
        "polygraphy.backend.trt",
        {
            "engine": ...,
            "name": None,
            "optimization_profile": None,
            "allocation_strategy": None,
            "weight_streaming_budget": None,
            "weight_streaming_percent": None,
            "debug_listener": None,
            "cuda_graph": "auto",
            "device_times": False,
            "device": None,
        },
    ),
    "UlpCompareFunc": Signature(
        "polygraphy.comparator",
        {"ulp_threshold": None, "check_shapes": None, "fail_fast": None, "find_output_func": None},
    ),
    "UseTfTrt": Signature(
        "polygraphy.backend.tf",
        {
            "graph": ...,
            "max_workspace_size": None,
            "fp16": None,
            "int8": None,
            "max_batch_size": None,
            "is_dynamic_op": False,
            "minimum_segment_size": None,
        },
    ),
    "WithUnmarked": Signature(
        "polygraphy.comparator", {"marked": ..., "unmarked": ..., "exclude_outputs": None}
    ),
    "autotune_plugins": Signature(
        "polygraphy.plugin",
        {
            "make_runner": ...,
            "matches": ...,
            "data_loader": None,
            "mode": "greedy",
            "max_combinations": 1000,
            "threshold": 0.1,
            "compare_func": None,
        },
    ),
    "check_accuracy": Signature(
        "polygraphy.check",
        {
            "path": ...,
            "rtol": None,
            "atol": None,
            "check_error_stat": None,
            "thresholds": None,
            "functions": (),
            "check_average": False,
        },
    ),
    "check_compatibility": Signature(
        "polygraphy.check", {"model": ..., "runners": ..., "data_loader": None}
    ),
    "check_lint": Signature(
        "polygraphy.check",
        {
            "path": ...,
            "output": None,
            "data_loader": None,
            "external_data_dir": None,
            "ignore_external_data": False,
            "providers": None,
            "graph_optimization_level": None,
        },
    ),
    "check_model": Signature("polygraphy.surgeon", {"model": ...}),
    "clean_up": Signature("polygraphy.surgeon", {"model": ...}),
    "compare_models": Signature("polygraphy.inspect", {"reference": ..., "candidate": ...}),
    "compare_saved": Signature(
        "polygraphy.inspect",
        {
            "reference": ...,
            "candidate": ...,
            "compare_func": None,
            "fail_fast": False,
            "allow_missing_outputs": False,
        },
    ),
    "compare_tactics": Signature("polygraphy.inspect", {"path0": ..., "path1": ...}),
    "concat": Signature("polygraphy.data", {"paths": ..., "output": ...}),
    "convert": Signature("polygraphy.data", {"path": ..., "output": ...}),
    "convert_opset": Signature("polygraphy.backend.onnx", {"model": ..., "opset": ...}),
    "convert_to_bf16": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "copy": None,
            "keep_ops": (),
            "keep_nodes": (),
            "only_ops": (),
            "only_nodes": (),
            "cast_io": None,
        },
    ),
    "convert_to_fp16": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "copy": None,
            "keep_ops": (),
            "keep_nodes": (),
            "only_ops": (),
            "only_nodes": (),
            "cast_io": None,
        },
    ),
    "diagnose": Signature(
        "polygraphy.diagnose",
        {
            "model": ...,
            "parties": ...,
            "data_loader": None,
            "reference": None,
            "golden": None,
            "save_culprit": None,
            "issue": None,
            "environments": None,
            "memory_budget": None,
        },
    ),
    "diagnose_half": Signature(
        "polygraphy.diagnose",
        {"model": ..., "dtype": "fp16", "data_loader": None, "rtol": None, "atol": None},
    ),
    "doctor": Signature("polygraphy.doctor", {}),
    "draw_model": Signature(
        "polygraphy.inspect",
        {
            "path": ...,
            "output": None,
            "port": 8000,
            "weights": False,
            "model_type": None,
            "display_as": None,
            "external_data_dir": None,
            "ignore_external_data": False,
            "infer_shapes": True,
            "allow_onnxruntime": None,
            "network_func": None,
            "checkpoint": None,
            "tf_outputs": (),
            "optimize_graph": False,
            "report": None,
        },
    ),
    "extract": Signature(
        "polygraphy.surgeon", {"model": ..., "inputs": None, "outputs": None, "data_loader": None}
    ),
    "find_bad_tactics": Signature("polygraphy.inspect", {"dir": None, "good": None, "bad": None}),
    "find_layers_to_raise": Signature(
        "polygraphy.debug",
        {
            "layers": ...,
            "make": ...,
            "iterations": ...,
            "mode": "bisect",
            "direction": "forward",
            "is_ranked": False,
        },
    ),
    "find_nodes_to_keep": Signature(
        "polygraphy.debug",
        {
            "model": ...,
            "path": ...,
            "dtype": "fp16",
            "iterations": None,
            "data_loader": None,
            "rtol": None,
            "atol": None,
        },
    ),
    "find_shard_hints": Signature(
        "polygraphy.multi_device",
        {
            "model": ...,
            "parallelism": "CP",
            "nb_rank": 1,
            "root": -1,
            "gpus": 0,
            "groups": (),
            "cp_type": "native",
            "suggest_io": True,
            "i_idx": 0,
            "o_idx": 0,
            "k_idx": 0,
            "v_idx": 0,
            "i_rank": None,
            "o_rank": None,
            "kv_rank": None,
            "reduce_op": "max",
            "attention_pattern": 0,
            "q_shuffle": None,
            "k_shuffle": None,
            "v_shuffle": None,
            "is_causal": False,
        },
    ),
    "fold_constants": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "num_passes": None,
            "do_shape_inference": None,
            "partitioning": None,
            "fold_shapes": None,
            "copy": None,
            "error_ok": None,
            "size_threshold": None,
            "allow_onnxruntime_shape_inference": None,
        },
    ),
    "import_from_script": Signature("polygraphy.mod", {"path": ..., "name": ...}),
    "infer_shapes": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "error_ok": None,
            "external_data_dir": None,
            "save_to_disk_threshold_bytes": None,
            "allow_onnxruntime": None,
        },
    ),
    "insert_node": Signature(
        "polygraphy.surgeon",
        {
            "model": ...,
            "op": ...,
            "inputs": ...,
            "outputs": ...,
            "name": None,
            "attrs": None,
            "domain": None,
        },
    ),
    "inspect_capability": Signature(
        "polygraphy.inspect",
        {
            "model": ...,
            "output": None,
            "with_partitioning": False,
            "external_data_suffix": None,
            "size_threshold": None,
            "all_tensors_to_one_file": None,
        },
    ),
    "inspect_data": Signature(
        "polygraphy.inspect",
        {
            "all_iterations": False,
            "show_values": False,
            "histogram": False,
            "statistics": False,
            "num_items": 3,
            "line_width": 75,
        },
    ),
    "inspect_model": Signature(
        "polygraphy.inspect",
        {
            "show": (),
            "stats": False,
            "list_unbounded_dds": False,
            "model_type": None,
            "display_as": None,
            "external_data_dir": None,
            "ignore_external_data": False,
            "infer_shapes": False,
            "allow_onnxruntime": None,
            "network_func": None,
            "tensor_info": None,
            "checkpoint": None,
            "tf_outputs": (),
            "optimize_graph": False,
        },
    ),
    "inspect_outputs": Signature("polygraphy.inspect", {"path": ..., "names": None}),
    "inspect_sparsity": Signature(
        "polygraphy.inspect",
        {"path": ..., "external_data_dir": None, "ignore_external_data": False},
    ),
    "inspect_tactics": Signature("polygraphy.inspect", {"path": ...}),
    "match_plugins": Signature(
        "polygraphy.plugin", {"model": ..., "plugin_dir": ..., "include": None, "exclude": None}
    ),
    "merge": Signature("polygraphy.data", {"paths": ..., "output": ...}),
    "modify_outputs": Signature(
        "polygraphy.backend.onnx",
        {"model": ..., "outputs": None, "exclude_outputs": None, "copy": None, "mark_types": None},
    ),
    "observe_shapes": Signature("polygraphy.surgeon", {"model": ..., "data_loader": None}),
    "onnx_from_path": Signature(
        "polygraphy.backend.onnx",
        {"path": ..., "external_data_dir": None, "ignore_external_data": None, "map_weights": None},
    ),
    "onnx_from_tf_graph": Signature(
        "polygraphy.backend.onnx", {"graph": ..., "opset": None, "optimize": None}
    ),
    "onnx_like_from_network": Signature("polygraphy.backend.trt", {"network": ...}),
    "override_input_shapes": Signature("polygraphy.surgeon", {"model": ..., "shapes": ...}),
    "prune_weights": Signature("polygraphy.surgeon", {"model": ...}),
    "raisable_layers": Signature("polygraphy.backend.trt", {"network": ...}),
    "reconstruct_weights": Signature("polygraphy.surgeon", {"model": ..., "map_weights": None}),
    "reduce_model": Signature(
        "polygraphy.debug",
        {
            "model": ...,
            "iterations": ...,
            "mode": "bisect",
            "reduce_outputs": True,
            "reduce_inputs": True,
            "data_loader": None,
            "save_inputs": None,
            "find_all": False,
        },
    ),
    "remove_nodes": Signature("polygraphy.surgeon", {"model": ..., "types": ...}),
    "restore_weights": Signature("polygraphy.surgeon", {"model": ..., "original": ...}),
    "save_engine": Signature("polygraphy.backend.trt", {"engine": ..., "path": ...}),
    "save_onnx": Signature(
        "polygraphy.backend.onnx",
        {
            "model": ...,
            "path": ...,
            "external_data_path": None,
            "size_threshold": None,
            "all_tensors_to_one_file": None,
        },
    ),
    "save_shards": Signature(
        "polygraphy.multi_device",
        {
            "models": ...,
            "path": ...,
            "external_data_path": None,
            "size_threshold": None,
            "all_tensors_to_one_file": None,
        },
    ),
    "set_upper_bound": Signature(
        "polygraphy.backend.onnx", {"model": ..., "upper_bounds": ..., "copy": None}
    ),
    "simplify": Signature("polygraphy.surgeon", {"model": ..., "copy": None}),
    "sort_nodes": Signature("polygraphy.surgeon", {"model": ...}),
    "strip_weights": Signature(
        "polygraphy.surgeon", {"model": ..., "exclude": (), "exclude_list": None}
    ),
    "verify": Signature(
        "polygraphy.surgeon",
        {"original": ..., "edited": ..., "data_loader": None, "compare_func": None, "advice": None},
    ),
    "verify_runs": Signature("polygraphy.surgeon", {"model": ..., "data_loader": None}),
}
