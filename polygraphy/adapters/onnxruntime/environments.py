"""Features of ONNX Runtime in this and other environments, for the port `sections_of`."""

from __future__ import annotations

from functools import partial

from polygraphy.adapters.onnxruntime.providers import devices_of, plugin_packages
from polygraphy.adapters.onnxruntime.starting import start_error
from polygraphy.adapters.os.interpreters import OtherEnvironment
from polygraphy.domain.environment import Section
from polygraphy.domain.errors import PolygraphyException
from polygraphy.ports.running import call_isolated

_RUN = """
import json, sys
import numpy, onnxruntime
model, given, made, how = sys.argv[1:]
how = json.loads(how)
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
built_in = set(onnxruntime.get_available_providers())
if how.get("graph_optimization_level"):
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, how["graph_optimization_level"])
if how.get("plain"):
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
if how.get("threads"):
    options.intra_op_num_threads = how["threads"]
if how.get("graph"):
    options.optimized_model_filepath = how["graph"]
for name, path in (how.get("provider_libraries") or {}).items():
    onnxruntime.register_execution_provider_library(name, path)
devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name not in built_in] if (
    how.get("provider_libraries")) else []
more = {"disabled_optimizers": how.get("disabled_optimizers") or []}
pairs = [(each, {}) if isinstance(each, str) else tuple(each) for each in how["providers"]]
if not any(d.ep_name == name for d in devices for name, _ in pairs):
    more["providers"] = pairs
for name, settings in pairs if "providers" not in more else ():
    word = settings.pop("device", "").lower()
    named = [
        d for d in devices if d.ep_name == name and (not word or word in
        {text.lower() for text in (d.device.type.name, *d.ep_metadata.values())})]
    if named:
        options.add_provider_for_devices(named[:1], settings)
    else:
        options.add_provider(name, settings)
session = onnxruntime.InferenceSession(model, options, enable_fallback=0, **more)
running = session.get_providers()
idle = [name for name, _ in more.get("providers", ()) if name not in running]
if idle and "CPUExecutionProvider" not in dict(pairs):
    raise RuntimeError(f"{idle[0]} does not start in this environment")
if how.get("graph"):
    sys.exit()
names = [output.name for output in session.get_outputs()]
with numpy.load(given) as stored:
    feed = {value.name: stored[str(i)] for i, value in enumerate(session.get_inputs())}
values = session.run(names, feed)
numpy.savez(made, **{str(i): value for i, value in enumerate(values)})
print("names", json.dumps(names))
"""


def open_environment(path: str) -> OtherEnvironment:
    """Return an installation of ONNX Runtime in another Python environment; see the port."""
    return OtherEnvironment(path, "onnxruntime", "ONNX Runtime", _RUN, saves_graph=True)


def provider_sections() -> list[Section]:
    """Return the sections of `doctor` about ONNX Runtime:
    its providers in order of priority, and its plugins.
    """
    title = "ONNX Runtime Execution Providers"
    try:
        import onnxruntime

        providers = onnxruntime.get_available_providers()
    except ModuleNotFoundError:
        return [Section(title, (), ("None: ONNX Runtime is not installed.",))]
    except Exception as error:  # For example, a shared library that does not load.
        message = f"None: ONNX Runtime does not load: {type(error).__name__}: {error}"
        return [Section(title, (), (message,))]
    plugins = [(name, _describe_plugin(module)) for name, module in plugin_packages()]
    rows = tuple((name, _provider_status(name)) for name in providers)
    return [Section(title, (*rows, *plugins), _clashes())]


def _provider_status(provider: str) -> str:
    """Return as text whether a provider starts with a model of one node in its own process, or why
    not.
    """
    try:
        reason = call_isolated(partial(start_error, provider), what=provider, is_silent=True)
    except PolygraphyException as error:
        reason = str(error)
    return f"does not start: {reason}" if reason else "starts"


_BUILDS = (
    "onnxruntime",
    "onnxruntime-directml",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-training",
)
"""The packages with the module ``onnxruntime``: of two in one environment, one hides the other."""


def _clashes() -> tuple[str, ...]:
    """Return warnings about several ONNX Runtime packages in one environment."""
    # Imported here, because it imports parsers for mail, archives and tables: 10 ms.
    from importlib import metadata

    names = {
        str(distribution.metadata["Name"]).lower() for distribution in metadata.distributions()
    }
    installed = [name for name in _BUILDS if name in names]
    if len(installed) < 2:
        return ()
    listed = " and ".join(installed)
    return (
        f"WARNING: {listed} are installed in the same environment, and overwrite each other's"
        f" files. Uninstall all of them, then install one: python -m pip uninstall"
        f" {' '.join(installed)}",
    )


def _describe_plugin(module: str) -> str:
    """Return as text the devices that a plugin offers; a separate process queries it."""
    name = module.removeprefix("onnxruntime_ep_")
    try:
        devices = call_isolated(partial(devices_of, name, module), what=module, is_silent=True)
    except PolygraphyException as error:
        return str(error)
    if not devices:
        return "registered, but no device for it was found"
    return f"{', '.join(devices)}: --provider-library {name}={module} --providers {name}"
