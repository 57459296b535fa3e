"""What ONNX Runtime offers here, for the port `sections_of`, and as other environments have it."""

from __future__ import annotations

from functools import partial

from polygraphy.adapters.onnxruntime.providers import devices_of, plugin_packages
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
if how.get("threads"):
    options.intra_op_num_threads = how["threads"]
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
session = onnxruntime.InferenceSession(model, options, **more)
names = [output.name for output in session.get_outputs()]
with numpy.load(given) as stored:
    feed = {value.name: stored[str(i)] for i, value in enumerate(session.get_inputs())}
values = session.run(names, feed)
numpy.savez(made, **{str(i): value for i, value in enumerate(values)})
print("names", json.dumps(names))
"""


def open_environment(path: str) -> OtherEnvironment:
    """Ask an environment for its version; see the port."""
    return OtherEnvironment(path, "onnxruntime", "ONNX Runtime", _RUN)


def provider_sections() -> list[Section]:
    """Return the execution providers, in the package's order of priority. The package is imported,
    because it alone knows, and because one that does not load is what this is for; it is never
    installed here.
    """
    title = "ONNX Runtime Execution Providers"
    try:
        import onnxruntime

        providers = onnxruntime.get_available_providers()
    except ModuleNotFoundError:
        return [Section(title, (), ("None: ONNX Runtime is not installed.",))]
    except Exception as error:  # A shared library that does not load, say.
        message = f"None: ONNX Runtime does not load: {type(error).__name__}: {error}"
        return [Section(title, (), (message,))]
    plugins = [(name, _described(module)) for name, module in plugin_packages()]
    return [Section(title, (*((name, "available") for name in providers), *plugins))]


def _described(module: str) -> str:
    """Return what a plugin offers here, in a process of its own: it may crash."""
    name = module.removeprefix("onnxruntime_ep_")
    try:
        found = call_isolated(partial(devices_of, name, module), what=module, is_silent=True)
    except PolygraphyException as error:
        return str(error)
    if not found:
        return "registered, but there is no device for it here"
    return f"{', '.join(found)}: --provider-library {name}={module} --providers {name}"
