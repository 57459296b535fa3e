"""Binds ports to adapters, lazily: an adapter is imported when its port is first resolved. Nothing
else happens here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from polygraphy.ports.binding import Unbound

__all__ = ["resolve"]

_ADAPTERS: dict[str, str] = {
    "BlobFiles": "polygraphy.adapters.files.formats.blobs:DiskBlobFiles",
    "BuildReports": "polygraphy.adapters.console.reports:LogBuildReports",
    "Commands": "polygraphy.adapters.processes.commands:ProcessCommands",
    "Console": "polygraphy.adapters.console.log:LogConsole",
    "ConstantEvaluator": "polygraphy.adapters.onnxruntime.constants:OnnxrtConstantEvaluator",
    "NarrowModels": "polygraphy.adapters.onnx.run.half_precision:OnnxNarrowModels",
    "ConstantEvaluator/onnx": "polygraphy.adapters.onnx.run.reference:ReferenceConstantEvaluator",
    "ConstantEvaluator/onnxruntime": (
        "polygraphy.adapters.onnxruntime.constants:OnnxrtConstantEvaluator"
    ),
    "DataFrames": "polygraphy.adapters.pandas.frames:PandasFrames",
    "DataTypeConverter/onnx": "polygraphy.adapters.onnx.storage.weights:OnnxDataTypes",
    "DataTypeConverter/onnxruntime": "polygraphy.adapters.onnxruntime.session:OnnxrtDataTypes",
    "DataTypeConverter/tensorflow": "polygraphy.adapters.tensorflow.datatype:TensorFlowDataTypes",
    "DataTypeConverter/tensorrt": "polygraphy.adapters.tensorrt.library.datatype:TensorrtDataTypes",
    "DataTypeConverter/torch": "polygraphy.adapters.torch.arrays:TorchDataTypes",
    "DebugReplays": "polygraphy.adapters.files.small.debug_replays:JsonDebugReplays",
    "Device": "polygraphy.adapters.cuda.device:CudaDevice",
    "DiagnosisReports": "polygraphy.adapters.console.diagnosis:LogDiagnosisReports",
    "ModelPairs": "polygraphy.adapters.onnx.edit.copying:OnnxModelPairs",
    "OpenModels": "polygraphy.adapters.onnx.run.opening:OnnxOpenModels",
    "DeviceMemory": "polygraphy.adapters.cuda.device:CudaDevice",
    "Diagnosis/machine": "polygraphy.adapters.machine.machine:ThisMachine",
    "Diagnosis/packages": "polygraphy.adapters.machine.machine:InstalledPackages",
    "Diagnosis/providers": "polygraphy.adapters.onnxruntime.environments:OnnxrtDiagnosis",
    "Diagnosis/tensorrt": "polygraphy.adapters.tensorrt.describe.diagnosis:TensorrtDiagnosis",
    "Notebooks": "polygraphy.adapters.web.notebook:HtmlNotebooks",
    "OnnxFiles": "polygraphy.adapters.onnx.storage.model:OnnxFilesAdapter",
    "PrecisionCaster": "polygraphy.adapters.onnx.cast.precision:OnnxPrecisionCaster",
    "Reports": "polygraphy.adapters.console.reports:LogReports",
    "Findings": "polygraphy.adapters.report.unrecorded:Unrecorded",
    "FailureFolders": "polygraphy.adapters.onnx.run.failure_folders:OnnxFailureFolders",
    "FailurePrograms": "polygraphy.codegen.failure_programs:RenderedFailurePrograms",
    "FactFinder": "polygraphy.adapters.onnx.describe.facts:OnnxFactFinder",
    "Isolation": "polygraphy.adapters.processes.forked:ForkedIsolation",
    "Launcher": "polygraphy.adapters.processes.launching:ProcessLauncher",
    "MatchFiles": "polygraphy.adapters.files.small.match_files:YamlMatchFiles",
    "ModelPages": "polygraphy.adapters.web.page:HtmlModelPages",
    "Machine": "polygraphy.adapters.machine.machine:ThisProcess",
    "ModelLinter/onnx": "polygraphy.adapters.onnx.lint.linting:OnnxModelLinter",
    "ModelOutlines": "polygraphy.adapters.onnx.describe.reading:OnnxModelOutlines",
    "ModelReader/onnx": "polygraphy.adapters.onnx.describe.reading:OnnxModelReader",
    "ModelReader/tensorflow": "polygraphy.adapters.tensorflow.reading:TensorFlowModelReader",
    "ModelReader/tensorrt": "polygraphy.adapters.tensorrt.plan.reader:TensorrtModelReader",
    "ModelReports": "polygraphy.adapters.console.models.reports:LogModelReports",
    "ModelTrial/onnx": "polygraphy.adapters.onnx.run.reference_trial:ReferenceTrial",
    "ModelTrial/onnxrt": "polygraphy.adapters.onnxruntime.trial:OnnxrtTrial",
    "ModelWriter": "polygraphy.adapters.onnx.storage.saving:OnnxModelWriter",
    "OtherEnvironments/onnxrt": "polygraphy.adapters.onnxruntime.environments:OnnxrtEnvironments",
    "PerceptualDistance": "polygraphy.adapters.lpips.distance:LpipsDistance",
    "Plots": "polygraphy.adapters.plots.matplotlib_plots:MatplotlibPlots",
    "Progress": "polygraphy.adapters.console.progress:TerminalProgress",
    "Questions": "polygraphy.adapters.console.questions:TerminalQuestions",
    "Quantizer": "polygraphy.adapters.onnxruntime.quantizer:OnnxrtQuantizer",
    "ReportPages": "polygraphy.adapters.web.report_page:HtmlReportPages",
    "ReplayFolders": "polygraphy.adapters.files.small.debug_replays:DiskReplayFolders",
    "ResultStore": "polygraphy.adapters.files.store.store:FileResultStore",
    "ShardHintFiles": "polygraphy.adapters.files.small.shard_hints:JsonShardHintFiles",
    "ShapeInference": "polygraphy.adapters.onnxruntime.shapes:OnnxrtShapeInference",
    "Spools": "polygraphy.adapters.files.small.spool:TemporarySpools",
    "SweepEngine/local": "polygraphy.adapters.processes.pool:LocalPool",
    "SweepEngine/ray": "polygraphy.adapters.ray.engine:RayEngine",
    "SweepEnvironments": "polygraphy.adapters.machine.environments:ThisPackageElsewhere",
    "SweepFiles": "polygraphy.adapters.files.small.sweep_files:DiskSweepFiles",
    "SupportChecker": "polygraphy.adapters.tensorrt.describe.support:TensorrtSupportChecker",
    "SupportChecker/trt": "polygraphy.adapters.tensorrt.describe.support:TensorrtSupportChecker",
    "SuspectedParty/onnx": "polygraphy.adapters.onnx.run.party:OnnxParty",
    "SuspectedParty/reference": "polygraphy.adapters.onnx.run.party:OnnxParty",
    "SuspectedParty/formulas": "polygraphy.adapters.onnx.run.party:FormulaParty",
    "SuspectedParty/package": "polygraphy.adapters.onnx.run.party:PackageParty",
    "SuspectedParty/trt": "polygraphy.adapters.tensorrt.party:TrtParty",
    "SuspectedParty/onnxrt": "polygraphy.adapters.onnxruntime.party:OnnxrtParty",
    "SuspectedParty/usual": "polygraphy.adapters.onnxruntime.party:OnnxrtParty",
    "TensorObserver": "polygraphy.adapters.onnx.edit.observing:OnnxTensorObserver",
    "Tensors/torch": "polygraphy.adapters.torch.arrays:TorchTensors",
    "TensorFiles": "polygraphy.adapters.onnx.storage.model:OnnxTensorFiles",
    "TextFiles": "polygraphy.adapters.files.small.work_files:DiskTextFiles",
    "WorkFiles": "polygraphy.adapters.files.small.work_files:DiskWorkFiles",
}

_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Commands": ("polygraphy.cli.backends.registry:modules_for",),
}
"""What adapters are made with, by port."""

_DATA_TYPES = "DataTypeConverter"
"""The port that other packages may have adapters of: for their own data types."""


def resolve(port: type, key: str | None = None) -> Any:
    """Make the adapter of a port; `key` chooses where a port has several.

    Raises:
        Unbound: no adapter is known.
    """
    slot = port.__name__ if key is None else f"{port.__name__}/{key}"
    if slot not in _ADAPTERS and port.__name__ == _DATA_TYPES:
        return _of_a_package(slot, key)
    if slot not in _ADAPTERS:
        raise Unbound(f"No adapter is bound to {slot}.")
    module, _, name = _ADAPTERS[slot].partition(":")
    return getattr(import_module(module), name)(*_ARGUMENTS.get(slot, ()))


def _of_a_package(slot: str, key: str | None) -> Any:
    """Make the adapter that an installed package has for the data types of a library."""
    from polygraphy.mod.plugins import DATA_TYPES, installed

    for plugin in installed(DATA_TYPES):
        if plugin.name == key:
            return plugin.load()()
    raise Unbound(f"No adapter is bound to {slot}.")
