"""What people's scripts import is exactly this: sorted, documented, and cheap to import."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from polygraphy.domain.catalog.metrics import METRICS

PUBLISHED: dict[str, list[str]] = {
    "polygraphy.backend.base": [
        "BaseLoader",
        "BaseRunner",
    ],
    "polygraphy.backend.base.util": [
        "check_inputs",
    ],
    "polygraphy.backend.common": [
        "BytesFromPath",
        "InvokeFromScript",
        "SaveBytes",
        "bytes_from_path",
        "invoke_from_script",
        "save_bytes",
    ],
    "polygraphy.backend.onnx": [
        "BytesFromOnnx",
        "ConvertOpset",
        "ConvertToBf16",
        "ConvertToFp16",
        "ExtractSubgraph",
        "FoldConstants",
        "GsFromOnnx",
        "InferShapes",
        "ModifyOutputs",
        "OnnxFromBytes",
        "OnnxFromPath",
        "OnnxFromTfGraph",
        "OnnxParty",
        "OnnxReferenceRunner",
        "SaveOnnx",
        "SetUpperBound",
        "bytes_from_onnx",
        "convert_opset",
        "convert_to_bf16",
        "convert_to_fp16",
        "extract_subgraph",
        "fold_constants",
        "gs_from_onnx",
        "infer_shapes",
        "modify_outputs",
        "onnx_from_bytes",
        "onnx_from_path",
        "onnx_from_tf_graph",
        "save_onnx",
        "set_upper_bound",
    ],
    "polygraphy.backend.onnx.util": [
        "all_tensor_names",
        "get_dtype",
        "get_input_metadata",
        "get_num_nodes",
        "get_output_metadata",
        "get_shape",
        "get_tensor_metadata",
        "get_unbounded_dds_tensors",
        "get_values",
        "lower_constant_nodes",
        "mark_by_op_type",
        "mark_layerwise",
        "mark_outputs",
        "meta_from_gs_tensors",
        "set_shapes_from_layerwise_meta",
        "str_from_onnx",
        "unmark_outputs",
    ],
    "polygraphy.backend.onnxrt": [
        "OnnxrtParty",
        "OnnxrtRunner",
        "SessionFromOnnx",
        "session_from_onnx",
    ],
    "polygraphy.backend.pluginref": [
        "OP_REGISTRY",
        "PluginRefRunner",
        "register",
    ],
    "polygraphy.backend.pluginref.references": [
        "OP_REGISTRY",
        "register",
    ],
    "polygraphy.backend.pyt": [
        "PytRunner",
        "TorchFromPath",
        "torch_from_path",
    ],
    "polygraphy.backend.tensorrt_rtx": [
        "CreateConfigRTX",
        "create_config_rtx",
    ],
    "polygraphy.backend.tf": [
        "CreateConfig",
        "GraphFromCkpt",
        "GraphFromFrozen",
        "GraphFromKeras",
        "GraphFromSavedModel",
        "ModifyGraphOutputs",
        "OptimizeGraph",
        "SaveGraph",
        "SessionFromGraph",
        "TfRunner",
        "UseTfTrt",
        "create_config",
        "graph_from_ckpt",
        "graph_from_frozen",
        "graph_from_keras",
        "graph_from_saved_model",
        "modify_graph_outputs",
        "optimize_graph",
        "register_logger_callback",
        "save_graph",
        "session_from_graph",
        "use_tf_trt",
    ],
    "polygraphy.backend.tf.util": [],
    "polygraphy.backend.trt": [
        "Algorithm",
        "BufferFromEngine",
        "BytesFromEngine",
        "Calibrator",
        "CreateConfig",
        "CreateNetwork",
        "EngineBytesFromNetwork",
        "EngineFromBytes",
        "EngineFromNetwork",
        "EngineFromPath",
        "FileReader",
        "LoadPlugins",
        "LoadRuntime",
        "MarkDebug",
        "ModifyNetworkOutputs",
        "NetworkFromOnnxBytes",
        "NetworkFromOnnxModel",
        "NetworkFromOnnxPath",
        "OnnxLikeFromNetwork",
        "PostprocessConfig",
        "PostprocessNetwork",
        "Profile",
        "SaveEngine",
        "SetDecomposableAttentions",
        "SetLayerPrecisions",
        "SetTensorDatatypes",
        "SetTensorFormats",
        "ShapeTuple",
        "TacticRecorder",
        "TacticReplayData",
        "TacticReplayer",
        "TensorInfo",
        "TrtParty",
        "TrtRunner",
        "buffer_from_engine",
        "bytes_from_engine",
        "create_config",
        "create_network",
        "engine_bytes_from_network",
        "engine_from_bytes",
        "engine_from_network",
        "engine_from_path",
        "get_trt_logger",
        "lazy_import_trt",
        "load_plugins",
        "load_runtime",
        "mark_debug",
        "modify_network_outputs",
        "network_from_onnx_bytes",
        "network_from_onnx_model",
        "network_from_onnx_path",
        "onnx_like_from_network",
        "postprocess_config",
        "postprocess_network",
        "raisable_layers",
        "save_engine",
        "set_decomposable_attentions",
        "set_layer_precisions",
        "set_tensor_datatypes",
        "set_tensor_formats",
        "tensorrt_module_and_version_string",
    ],
    "polygraphy.backend.trt.util": [
        "check_onnx_parser_errors",
        "fail_unavailable",
        "get_active_profile_bindings",
        "get_all_io_tensors",
        "get_all_tensors",
        "get_bindings_per_profile",
        "get_input_metadata_from_engine",
        "get_input_metadata_from_network",
        "get_layer_class_mapping",
        "get_metadata_from_engine",
        "get_trt_logger",
        "mark_by_layer_type",
        "mark_layerwise",
        "mark_outputs",
        "np_dtype_from_trt",
        "str_from_config",
        "str_from_engine",
        "str_from_network",
        "unmark_outputs",
    ],
    "polygraphy.check": [
        "check_accuracy",
        "check_compatibility",
        "check_lint",
    ],
    "polygraphy.common": [
        "BoundedShape",
        "DataTypeConversionException",
        "FormattedArray",
        "MetadataTuple",
        "PolygraphyException",
        "PolygraphyInternalException",
        "TensorMetadata",
    ],
    "polygraphy.common.interface": [
        "TypedDict",
        "TypedList",
    ],
    "polygraphy.comparator": [
        "AccuracyResult",
        "AccuracyResults",
        "BaseCompareFunc",
        "BasePostprocessFunc",
        "Comparator",
        "CompareFunc",
        "CompareResult",
        "DataLoader",
        "IndicesCompareFunc",
        "IndicesResult",
        "IterationResult",
        "OutputCompareResult",
        "PostprocessFunc",
        "RunResults",
        "SimpleCompareFunc",
        "SimpleThreshold",
        "StreamingDataLoader",
        "Threshold",
        "Tolerance",
        "TopKPostprocessFunc",
        "WithUnmarked",
        *(name for metric in METRICS.values() for name in metric.published_names),
    ],
    "polygraphy.comparator.struct": [
        "AccuracyResult",
        "AccuracyResults",
        "DeferredFacts",
        "InputHint",
        "IterationResult",
        "LazyArray",
        "ModelFacts",
        "Part",
        "RunResults",
    ],
    "polygraphy.comparator.util": [
        "build_heatmaps",
        "cast_up",
        "compute_argmax",
        "compute_argmin",
        "compute_average_magnitude",
        "compute_max",
        "compute_mean",
        "compute_median",
        "compute_min",
        "compute_quantile",
        "compute_std",
        "compute_variance",
        "log_compared_output_stats",
        "log_output_stats",
        "scatter_plot_error_magnitude",
        "str_histogram",
        "str_output_stats",
    ],
    "polygraphy.config": [
        "ARRAY_SWAP_THRESHOLD_MB",
        "ASK_BEFORE_INSTALL",
        "AUTOINSTALL_DEPS",
        "EXIT_CODES",
        "INSTALL_CMD",
        "INTERNAL_CORRECTNESS_CHECKS",
        "USE_TENSORRT_RTX",
    ],
    "polygraphy.constants": [
        "AUTOINSTALL_DEPS",
        "DEFAULT_SEED",
        "DEFAULT_SHAPE_VALUE",
        "INTERNAL_CORRECTNESS_CHECKS",
        "LEGACY_KEY_PREFIX",
        "LEGACY_TYPE_MARKER",
        "MARK_ALL",
        "TAB",
        "TYPE_MARKER",
    ],
    "polygraphy.cuda": [
        "Cuda",
        "DeviceArray",
        "DeviceView",
        "MemcpyKind",
        "Stream",
        "use_device",
        "wrapper",
    ],
    "polygraphy.data": [
        "concat",
        "convert",
        "merge",
    ],
    "polygraphy.datatype": [
        "DataType",
        "DataTypeEntry",
        "register_dtype_exporter",
        "register_dtype_importer",
    ],
    "polygraphy.datatype.numpy": [
        "DataType",
        "from_datatype",
        "from_numpy",
    ],
    "polygraphy.datatype.onnx": [
        "DataType",
        "from_datatype",
        "from_onnx",
    ],
    "polygraphy.datatype.onnxrt": [
        "DataType",
        "from_datatype",
        "from_onnxrt",
    ],
    "polygraphy.datatype.tensorrt": [
        "DataType",
        "from_datatype",
        "from_tensorrt",
    ],
    "polygraphy.datatype.torch": [
        "DataType",
        "from_datatype",
        "from_torch",
    ],
    "polygraphy.diagnose": ["diagnose", "diagnose_half"],
    "polygraphy.debug": [
        "AskUser",
        "CheckCommand",
        "Iterations",
        "Outcome",
        "Reduction",
        "find_layers_to_raise",
        "find_nodes_to_keep",
        "numbered_path",
        "prove_reduction",
        "reduce_model",
        "repeat",
    ],
    "polygraphy.doctor": [
        "doctor",
    ],
    "polygraphy.exception": [
        "BackendError",
        "CheckFailedError",
        "DamagedFileError",
        "DataTypeConversionException",
        "FileError",
        "InconclusiveError",
        "InputError",
        "MissingDependencyError",
        "MissingFileError",
        "ModelError",
        "PolygraphyException",
        "PolygraphyInternalException",
        "UnknownKeyError",
        "UnknownNameError",
        "UsageError",
    ],
    "polygraphy.extension": [
        "Backend",
        "BadValue",
        "Choice",
        "Choices",
        "DataTypeConverter",
        "Flag",
        "Integer",
        "Kind",
        "Number",
        "Options",
        "PerName",
        "Range",
        "Script",
        "Shapes",
        "Text",
        "Texts",
        "option",
    ],
    "polygraphy.func": [
        "constantmethod",
        "extend",
    ],
    "polygraphy.inspect": [
        "compare_models",
        "compare_saved",
        "compare_tactics",
        "describe_model",
        "draw_model",
        "find_bad_tactics",
        "inspect_capability",
        "inspect_data",
        "inspect_model",
        "inspect_outputs",
        "inspect_sparsity",
        "inspect_tactics",
    ],
    "polygraphy.json": [
        "Decoder",
        "Encoder",
        "add_json_methods",
        "from_json",
        "load_json",
        "save_json",
        "to_json",
    ],
    "polygraphy.logger": [
        "G_LOGGER",
        "LogMode",
        "Logger",
        "SEVERITIES",
        "SeverityTable",
        "was_logged",
    ],
    "polygraphy.logger.logger": [
        "G_LOGGER",
        "LogMode",
        "Logger",
        "LoggerIndent",
        "LoggerVerbosity",
        "SeverityTrie",
        "has_colors",
    ],
    "polygraphy.mod": [
        "LATEST_VERSION",
        "LazyModule",
        "Version",
        "autoinstall",
        "deprecate",
        "export",
        "export_deprecated_alias",
        "has_mod",
        "import_from_script",
        "lazy_import",
        "version",
        "warn_deprecated",
    ],
    "polygraphy.multi_device": [
        "AttentionLayer",
        "Collectives",
        "FusedAttention",
        "ShardHints",
        "ShardModel",
        "ShardTensor",
        "find_shard_hints",
        "load_shard_hints",
        "save_shard_hints",
        "save_shards",
        "shard_model",
    ],
    "polygraphy.plugin": [
        "PluginInstance",
        "PluginMatch",
        "ReplacePlugins",
        "autotune_plugins",
        "load_matches",
        "match_plugins",
        "replace_plugins",
        "save_matches",
    ],
    "polygraphy.surgeon": [
        "CheckModel",
        "CleanUp",
        "CopyNodes",
        "Extract",
        "InsertNode",
        "ObserveShapes",
        "OverrideInputShapes",
        "PruneWeights",
        "ReconstructWeights",
        "RemoveNodes",
        "RestoreWeights",
        "Simplify",
        "SortNodes",
        "StripWeights",
        "check_model",
        "clean_up",
        "copy_nodes",
        "extract",
        "insert_node",
        "observe_shapes",
        "override_input_shapes",
        "prune_weights",
        "reconstruct_weights",
        "remove_nodes",
        "restore_weights",
        "show_edited",
        "show_original",
        "simplify",
        "sort_nodes",
        "strip_weights",
        "verify",
        "verify_runs",
    ],
    "polygraphy.testing": [
        "FakeLoader",
        "FakeNarrowModel",
        "FakeNarrowModels",
        "FakeRunner",
        "FakeShapeInference",
        "FollowedJob",
        "FunctionCommands",
        "HostMemory",
        "InlineIsolation",
        "MeanDistance",
        "MemoryResultStore",
        "MemoryTextFiles",
        "RecordingConsole",
        "RecordingProgress",
        "ScriptedEngine",
        "ScriptedQuestions",
        "bind",
        "check_data_types",
        "check_loader",
        "check_result_store",
        "check_runner",
    ],
    "polygraphy.util": [
        "LockFile",
        "NamedTemporaryFile",
        "TempAttrChange",
        "add_file_suffix",
        "check_called_by",
        "check_sequence_contains",
        "contains_wildcard",
        "default",
        "find_in_dirs",
        "find_str_in_iterable",
        "get_file_size",
        "getattr_nested",
        "indent_block",
        "invert_dict",
        "invoke_if_callable",
        "is_empty_shape",
        "is_inf",
        "is_nan",
        "is_sequence",
        "is_shape_dynamic",
        "is_valid_shape_override",
        "load_file",
        "make_repr",
        "makedirs",
        "match_keys",
        "override_dynamic_shape",
        "sanitize_filename",
        "save_file",
        "str_from_layer",
        "try_getattr",
        "try_match_shape",
        "try_receive_on_queue",
        "try_send_on_queue",
        "unique_list",
        "unpack_args",
        "value_or_from_dict",
        "volume",
    ],
    "polygraphy.util.array": [
        "abs",
        "all",
        "allclose",
        "any",
        "argmax",
        "argmin",
        "argwhere",
        "cast",
        "data_ptr",
        "divide",
        "dtype",
        "equal",
        "greater",
        "histogram",
        "is_contiguous",
        "is_device_view",
        "is_numpy",
        "is_on_cpu",
        "is_on_gpu",
        "is_torch",
        "isfinite",
        "isinf",
        "isnan",
        "logical_and",
        "logical_not",
        "logical_xor",
        "make_contiguous",
        "max",
        "mean",
        "median",
        "min",
        "multiply",
        "nbytes",
        "pad",
        "power",
        "quantile",
        "ravel",
        "reshape",
        "resize_or_reallocate",
        "shape",
        "size",
        "sqrt",
        "std",
        "subtract",
        "sum",
        "to_numpy",
        "to_torch",
        "topk",
        "transpose",
        "unravel_index",
        "var",
        "view",
        "where",
    ],
    "polygraphy.util.misc": [
        "default_value",
        "find_in_dict",
        "is_shape_dynamic",
        "is_valid_shape_override",
        "override_dynamic_shape",
    ],
}
FOREIGN = [
    "black",
    "google.protobuf",
    "jinja2",
    "onnx",
    "onnxruntime",
    "rich",
    "tensorflow",
    "tensorrt",
    "torch",
]

every_module = pytest.mark.parametrize("name", PUBLISHED)


def by_kind_and_name(name: str) -> tuple[int, str]:
    """Order constants before classes before functions, as linters do."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def public_members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the functions and properties that a class of ours shows, inherited ones too."""
    for name, member in inspect.getmembers(owner):
        if name.startswith("_"):
            continue
        function = member.fget if isinstance(member, property) else member
        module = getattr(inspect.unwrap(function), "__module__", None) if callable(function) else ""
        if str(module).startswith("polygraphy") and not isinstance(member, type):
            yield name, member


def symbols() -> list[tuple[str, str]]:
    return [(module, symbol) for module, names in PUBLISHED.items() for symbol in names]


@every_module
def test_the_public_names_are_these(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLISHED[name])
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(PUBLISHED[name]) <= set(dir(module))  # Shells complete from it.
    for symbol in PUBLISHED[name]:
        assert hasattr(module, symbol)


@every_module
def test_the_public_names_are_sorted(name: str) -> None:
    names = importlib.import_module(name).__all__
    assert names == sorted(names, key=by_kind_and_name)


@every_module
def test_modules_are_documented(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize(("module", "symbol"), symbols())
def test_what_is_public_is_documented(module: str, symbol: str) -> None:
    target = getattr(importlib.import_module(module), symbol)
    if not isinstance(target, type) and not inspect.isfunction(target):
        return
    assert (target.__doc__ or "").strip()
    if isinstance(target, type):
        missing = [name for name, member in public_members(target) if not inspect.getdoc(member)]
        assert missing == []


def test_there_are_members_to_look_at() -> None:
    from polygraphy.comparator import OutputCompareResult, RunResults

    assert {"concat", "split", "save", "keys"} <= {name for name, _ in public_members(RunResults)}
    assert {"excess", "passed"} <= {name for name, _ in public_members(OutputCompareResult)}


@pytest.mark.slow
@every_module
def test_importing_is_cheap(name: str) -> None:
    code = f"import {name}, sys\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(FOREIGN)


def test_loaders_have_a_function_that_calls_them_at_once() -> None:
    for module, symbol in symbols():
        if module == "polygraphy.testing":
            continue
        target = getattr(importlib.import_module(module), symbol)
        if inspect.isclass(target) and hasattr(target, "call_impl") and symbol != "BaseLoader":
            words = symbol.replace("RTX", "Rtx")
            words = "".join(f"_{c.lower()}" if c.isupper() else c for c in words)
            assert words.removeprefix("_") in PUBLISHED[module]


def test_old_names_mean_the_new_things() -> None:
    from polygraphy import comparator

    assert comparator.SimpleThreshold is comparator.Tolerance


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("CompareFunc.simple", "SimpleCompareFunc", {"rtol": 1e-3}),
        ("CompareFunc.basic_compare_func", "SimpleCompareFunc", {"atol": 1e-3, "fail_fast": True}),
        ("CompareFunc.indices", "IndicesCompareFunc", {"index_tolerance": 1}),
        ("PostprocessFunc.top_k", "TopKPostprocessFunc", {"k": 3}),
    ],
)
def test_old_factories_work_and_warn(
    old: str, new: str, words: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from polygraphy import comparator

    owner, name = old.split(".")
    made = getattr(getattr(comparator, owner), name)(**words)
    assert type(made) is getattr(comparator, new)
    assert vars(made) == vars(getattr(comparator, new)(**words))
    assert f"{old} is deprecated" in capsys.readouterr().out
