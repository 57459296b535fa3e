"""Execution providers of ONNX Runtime, those built into it and those of plugins; and what ONNX
Runtime raises, and what it is called here: the one place where the two meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.onnxruntime.kernels import kernel_advice
from polygraphy.adapters.os.forks import OneProcess
from polygraphy.binding import resolve
from polygraphy.domain.errors import (
    BackendError,
    FileError,
    InputError,
    MissingFileError,
    ModelError,
    PolygraphyException,
    UnavailableError,
    UnknownNameError,
    UnsupportedModelError,
    UnsupportedOperatorError,
    UsageError,
)
from polygraphy.domain.tensors.naming import in_bytes
from polygraphy.ports.reporting import Console

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice, SessionOptions

_INVALID_GRAPH = {"InvalidGraph", "NoModel"}
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
"""Plugins have it in the middle, too."""
_FAILED = re.compile(r"while running (\S+) node\. Name:'([^']*)'")
_STATUS = "Status Message: "
_SOURCE = re.compile(
    r"^\S+\.(?:h|hpp|inl|cc|cpp|cu|cuh):\d+ [^()]+(?:::operator\(\))?\([^()]*\)(?: const)?"
    r" (?:\[with [^]]*\] )?"
)
"""The location in ONNX Runtime's source code at the start of an error."""
_LOADING = re.compile(r"^(?:Load model from .*? failed:|Failed to load model with error: )\s*")
_INVALID = (
    re.compile(
        r"^This is an invalid model\. (?:In Node, \((?P<name>.*?), (?P<op>[^,]*), .*?\) : .*?, )?"
        r"Error:? (?=\S)"
    ),
    re.compile(r"^Node ?\((?P<name>.*?)\) Op \((?P<op>[^)]*)\) (?:\[\w+InferenceError\] )?"),
)
"""The start of an error about an invalid model, with the node."""
_CONDITION = re.compile(r"^.+? was false\. (?=\S)")
"""The condition that failed, if an explanation follows."""
_NO_MEMORY = re.compile(
    "out of memory|bfc_arena|cudaErrorMemoryAllocation|_STATUS_ALLOC_FAILED|bad allocation", re.I
)
_SIZE = re.compile(r"requested buffer of size (\d+)|requested bytes of (\d+)")
_NO_KERNEL = "Could not find an implementation"
_NO_FILE = "External data path does not exist"
_NO_LOCALE = re.compile(r"Failed to construct locale with name:([\w.@-]+)")
_NO_OPERATOR = "is not a registered function/op"
"""What ONNX Runtime says of an operator that it does not know."""
_HINTS = (
    (
        "raw_data size (0 bytes)",
        "The weights were removed: run `surgeon weight-reconstruct`, or use the model with"
        " weights.",
    ),
    (
        _NO_OPERATOR,
        "Unsupported operator: check its domain and opset, or register its library.",
    ),
    (
        _NO_KERNEL,
        "Unsupported operator: no provider in use implements it for these data types.",
    ),
    (
        "Unsupported model IR version",
        "The model is newer than this ONNX Runtime: pip install -U onnxruntime, or save it with a"
        " lower ir_version.",
    ),
    *(
        (text, "`polygraphy check lint` lists the problems of the model.")
        for text in (
            "Invalid model.",
            "an invalid model.",
            "Deserialize tensor",
            "InferenceError]",
            "Out of bounds dimensions",
            "Failed to parse value",
            "does not match expected size",
        )
    ),
    ("bad allocation", "Out of memory: use a smaller batch."),
    ("Failed to allocate memory", "Out of memory: use a smaller batch."),
)


@contextmanager
def translate_errors(
    doing: str,
    model: str = "",
    node_inputs: Callable[[str, str], str] | None = None,
    uses_device: Callable[[], bool] = bool,
) -> Iterator[None]:
    """Convert an error of ONNX Runtime inside the block to one of this package that names the
    action.

    Args:
        doing: the operation on the model, as in ``run``.
        model: its path.
        node_inputs: returns what a node, given by its operator and name, takes.
        uses_device: returns whether a provider has memory of its own, such as that of a GPU.

    Raises:
        UnavailableError: the memory of the device is too small.

    Its classes are recognized by module and name, so that nothing is imported to translate what
    never happens.
    """
    try:
        yield
    except PolygraphyException:
        raise
    except Exception as error:
        is_theirs = type(error).__module__.startswith("onnxruntime")
        if not is_theirs and not isinstance(error, (RuntimeError, ValueError)):
            raise
        text = strip_error_code(str(error))
        # The name of a node in a subgraph starts with the name of the outer node.
        failed = _FAILED.findall(text)
        if _NO_MEMORY.search(text) and uses_device():
            raise _memory_error(text, doing, failed) from error
        if failed:
            raise _node_error(text, failed[-1], doing, node_inputs) from error
        raise _translate_error(error, text, doing, model) from error


def _memory_error(text: str, doing: str, failed: Sequence[tuple[str, str]]) -> UnavailableError:
    """Return the error that the memory of a device is too small, with the node that ran last."""
    node = f" at {failed[-1][0]} {failed[-1][1]!r}" if failed else ""
    sizes = [int(size) for pair in _SIZE.findall(text) for size in pair if size]
    size = f" for {in_bytes(sizes[0])}" if sizes else ""
    return UnavailableError(
        f"ONNX Runtime could not {doing} the model: the memory of the device is too small{size}"
        f"{node}.",
        backend="onnxruntime",
        hint="Use a smaller batch, end other programs that use the device, or raise gpu_mem_limit.",
    )


def _node_error(
    text: str, node: tuple[str, str], doing: str, node_inputs: Callable[[str, str], str] | None
) -> BackendError:
    """Return the error for a node that failed although the data fit the model's inputs."""
    op, name = node
    reason = message_without_source(text.rpartition(_STATUS)[2])
    inputs_text = node_inputs(op, name) if node_inputs is not None else ""
    label = f"node {name!r}" if name else "a node without a name"
    node_error = f"{label} ({inputs_text or op}): {reason}"
    hint = _hint(text)
    end = "." if hint and not node_error.endswith(".") else ""
    return BackendError(
        f"ONNX Runtime could not {doing} the model: {node_error}{end}",
        backend="onnxruntime",
        hint=hint,
    )


def _translate_error(error: Exception, text: str, doing: str, model: str) -> PolygraphyException:
    """Return the exception of this package for an error from ONNX Runtime."""
    kind = type(error).__name__
    if kind in _INVALID_GRAPH and "Protobuf parsing failed" not in text:
        where = f"{model}: " if model else ""
        return ModelError(
            f"ONNX model is invalid: {where}{message_without_source(text).rstrip('.')}.",
            path=model or None,
            hint="`polygraphy check lint` lists the problems of the model.",
        )
    if kind == "InvalidProtobuf" or "Protobuf parsing failed" in text:
        return ModelError(
            f"ONNX model is invalid: {model or 'the model'} is truncated, damaged, or not an ONNX"
            f" model. ({message_without_source(text)})",
            path=model or None,
            hint="Try `polygraphy inspect model`, or export or download the model again.",
        )
    if kind in ("InvalidArgument", "ValueError") and doing == "run":
        return InputError(f"ONNX Runtime rejected the inputs: {text}")
    if _NO_FILE in text:
        return FileError(
            f"ONNX Runtime could not {doing} the model: {text}.".replace("..", "."),
            path=model or None,
            hint="Put the file next to the model, or set its folder with --external-data-dir.",
        )
    if locale := _NO_LOCALE.search(text):
        return UnavailableError(
            f"ONNX Runtime could not {doing} the model: this machine does not have the locale"
            f" {locale[1]}, which an operator for text requires.",
            backend="onnxruntime",
            hint=f"Install the package locales, and run locale-gen {locale[1]}.",
        )
    lacks_kernel, is_unknown = _NO_KERNEL in text, _NO_OPERATOR in text
    advice = kernel_advice(text)
    hint, text = f"{_hint(text)} {advice}".strip(), message_without_source(text)
    end = "." if hint and not text.endswith(".") else ""
    failure = UnsupportedModelError if lacks_kernel else BackendError
    return (UnsupportedOperatorError if is_unknown else failure)(
        f"ONNX Runtime could not {doing} the model: {text}{end}", backend="onnxruntime", hint=hint
    )


def message_without_source(message: str) -> str:
    """Return the message of an error without its source location in ONNX Runtime."""
    message = _LOADING.sub("", message)
    for start in _INVALID:
        message = start.sub(_node_label, message)
    return _CONDITION.sub("", _SOURCE.sub("", message))


def _node_label(match: re.Match[str]) -> str:
    """Return the node of an error in front of a message; empty if the message has no node."""
    name, op = (match["name"] or "").strip('"'), match["op"]
    if not op:
        return ""
    return f"node {name!r} ({op}): " if name else f"a node without a name ({op}): "


def _hint(text: str) -> str:
    """Return advice on an error of ONNX Runtime; empty if there is none."""
    return next((advice for sign, advice in _HINTS if sign in text), "")


def strip_error_code(text: str) -> str:
    """Return a message without its code, such as ``[ONNXRuntimeError] : 7 :
    INVALID_PROTOBUF :``.
    """
    return " ".join(_CODE.sub("", text).split())


onnxrt = mod.lazy_import("onnxruntime>=1.10.0")

Provider = Union[str, "tuple[str, dict[str, Any]]"]

_HELPER = "get_library_path"
_DEVICE = "device"
"""The option that chooses one of several devices of a provider of a plugin."""


@frozen
class _Library:
    """A plugin library that ONNX Runtime has loaded, until the process ends.

    Attributes:
        path: the library.
        providers: the names of its providers that have a device here, in its order.
    """

    path: str
    providers: Sequence[str]


_libraries: MutableMapping[str, _Library] = {}
_process = OneProcess("A plugin of ONNX Runtime")


def match_providers(
    providers: Sequence[Provider], libraries: Mapping[str, str] | None = None
) -> list[Provider]:
    """Return execution providers by their full names.

    Args:
        providers: names or unique parts of them, or those of plugins, perhaps with options.
        libraries: the paths or modules of plugins by the names of these; they are registered.

    Raises:
        UnknownNameError: ONNX Runtime has no such provider.
        UnavailableError: the installed ONNX Runtime is built without one, and the list does not
            allow the CPU.
        UsageError: a part of a name is one of several.
        BackendError: a plugin cannot be loaded, or there is no device for it here.
    """
    for name, source in (libraries or {}).items():
        _register_library(name, source)
    available = list(dict.fromkeys([*onnxrt.get_available_providers(), *_plugin_providers()]))
    if not any(_is_cpu(provider) for provider in providers):
        return [_match_provider(provider, available) for provider in providers]
    matched = (_match_or_skip(provider, available) for provider in providers)
    return [provider for provider in matched if provider is not None]


def _match_or_skip(provider: Provider, available: Sequence[str]) -> Provider | None:
    """Return a provider by its full name; None, with a warning, if this build does not have it."""
    try:
        return _match_provider(provider, available)
    except UnavailableError as error:
        resolve(Console).note(f"{error} The model runs without it.")
        return None


def _is_cpu(provider: Provider) -> bool:
    """Return whether a provider is the CPU."""
    name = provider if isinstance(provider, str) else provider[0]
    return name.lower() in ("cpu", "cpuexecutionprovider")


def session_arguments(options: SessionOptions, providers: Sequence[Provider]) -> dict[str, Any]:
    """Return the arguments of a session for providers, by full name;
    those of plugins go into its options.
    """
    plugged = set(_plugin_providers())
    named = [(provider, {}) if isinstance(provider, str) else provider for provider in providers]
    if plugged.isdisjoint(name for name, _ in named):
        return {"providers": list(providers)}
    _process.enter()
    for name, given_values in named:
        how = {key: str(value) for key, value in given_values.items()}
        with translate_errors("use", f"execution provider {name!r}"):
            if name in plugged:
                device = _device(name, how.pop(_DEVICE, ""))
                options.add_provider_for_devices([device], how)
            else:
                options.add_provider(name, how)
    return {}


def plugin_packages() -> list[tuple[str, str]]:
    """Return name and module with version of the installed packages that provide plugins."""
    # Imported here, because it imports parsers for mail, archives and tables: 10 ms.
    from importlib import metadata

    versions = {
        distribution.metadata["Name"]: distribution.version
        for distribution in metadata.distributions()
        if str(distribution.metadata["Name"]).startswith("onnxruntime-ep-")
    }
    named = [(f"{name} {version}", name.replace("-", "_")) for name, version in versions.items()]
    return sorted(pair for pair in named if find_spec(pair[1]) is not None)


def devices_of(name: str, source: str) -> list[str]:
    """Register a plugin; return its providers, each with the kinds of its devices."""
    _register_library(name, source)
    return [
        f"{provider} on {', '.join(dict.fromkeys(item.device.type.name for item in ep_devices))}"
        for provider in _libraries[name].providers
        if (
            ep_devices := [
                ep_device for ep_device in onnxrt.get_ep_devices() if ep_device.ep_name == provider
            ]
        )
    ]


def library_of(source: str) -> str:
    """Return the path of a plugin library, from a path or from a module that provides it.

    Raises:
        MissingFileError: there is neither.
        BackendError: the module does not tell it.
    """
    path = Path(source)
    if path.is_file():
        return str(path.absolute())
    if not all(part.isidentifier() for part in source.split(".")) or path.exists():
        raise MissingFileError(f"The provider library {source} is not a file.", path=source)
    try:
        module = import_module(source)
    except ModuleNotFoundError as error:
        raise MissingFileError(
            f"The provider library {source} is neither a file nor a module.",
            path=source,
            hint=f"Set its path, or install the module: pip install {source.replace('_', '-')}",
        ) from error
    helper = getattr(module, _HELPER, None)
    if helper is None:
        raise BackendError(
            f"The module {source} has no function {_HELPER} that returns the path of its library.",
            backend="onnxruntime",
            hint="Set the path of the library.",
        )
    try:
        return str(Path(helper()).absolute())
    except Exception as error:  # Foreign code can raise anything.
        raise BackendError(
            f"The module {source} does not return the path of its library: {error}".rstrip(": "),
            backend="onnxruntime",
        ) from error


def _register_library(name: str, source: str) -> None:
    """Register a library of an execution provider under a name, once."""
    path = library_of(source)
    names = {library.path: known_name for known_name, library in _libraries.items()}
    if names.get(path) == name:
        return
    if not hasattr(onnxrt, "register_execution_provider_library"):
        raise BackendError(
            f"ONNX Runtime {onnxrt.__version__} does not support provider libraries; use 1.23 or"
            " later.",
            backend="onnxruntime",
            hint="pip install -U onnxruntime",
        )
    if path in names:
        raise BackendError(
            f"The provider library {path} is already registered as {names[path]!r}.",
            backend="onnxruntime",
        )
    known_names = {value.lower() for value in (*_libraries, *onnxrt.get_available_providers())}
    if name.lower() in known_names:
        raise _library_error(name, path, "already registered")
    onnxrt.set_default_logger_severity(4)  # Plugins also report errors as exceptions.
    before = len(onnxrt.get_ep_devices())
    try:
        onnxrt.register_execution_provider_library(name, path)
    except Exception as error:  # ONNX Runtime raises its own class for all errors.
        raise _library_error(name, path, str(error)) from error
    ep_names = [device.ep_name for device in onnxrt.get_ep_devices()[before:]]
    _libraries[name] = _Library(path, tuple(dict.fromkeys(ep_names)))


def _library_error(name: str, path: str, text: str) -> BackendError:
    """Return the error for a library that ONNX Runtime cannot load."""
    reason = " ".join(text.split()).rpartition(" with error: ")[2].removeprefix(f"{path}: ")
    if "CreateEpFactories" in reason:
        reason = "it is not a provider library: the function CreateEpFactories is missing"
    if "already registered" in reason:
        reason = f"the name {name!r} belongs to a different library or to a provider"
    return BackendError(
        f"ONNX Runtime cannot load the provider library {path}: {reason.rstrip('.')}.",
        backend="onnxruntime",
    )


def _plugin_providers() -> Iterator[str]:
    """Yield the names of the providers of plugins."""
    for library in _libraries.values():
        yield from library.providers


def _device(provider: str, wanted: str) -> OrtEpDevice:
    """Return the first device of a provider, or the first with a given name."""
    devices = [device for device in onnxrt.get_ep_devices() if device.ep_name == provider]
    called = {wanted.lower()}
    for device in devices:
        names = (device.device.type.name, *device.ep_metadata.values())
        if not wanted or called & {name.lower() for name in names}:
            return device
    known_names = [device.device.type.name for device in devices]
    hint = "List them with `polygraphy doctor`."
    raise UnknownNameError(f"Device of {provider}", wanted, known_names, hint=hint)


def _plugin_provider(name: str) -> str | None:
    """Return the provider of a plugin by the plugin's name; None if there is none.

    Raises:
        BackendError: there is no device for it here.
    """
    library = _libraries.get(name)
    if library is not None and not library.providers:
        raise BackendError(
            f"The provider library {name!r} ({library.path}) is registered, but no device for it"
            " was found.",
            backend="onnxruntime",
            hint="List them with `polygraphy doctor`.",
        )
    return None if library is None else library.providers[0]


_PACKAGES = (
    ("cuda", "onnxruntime-gpu"),
    ("tensorrt", "onnxruntime-gpu"),
    ("dml", "onnxruntime-directml"),
    ("openvino", "onnxruntime-openvino"),
    ("qnn", "onnxruntime-qnn"),
)
"""Packages with execution providers that others lack, by part of the provider's name."""


def _match_provider(provider: Provider, available: Sequence[str]) -> Provider:
    """Return a provider with its full name; raise UnknownNameError if it is not available."""
    wanted, options = (provider, None) if isinstance(provider, str) else provider
    name = _plugin_provider(wanted) or _full_name(wanted, available)
    return name if options is None else (name, options)


def _full_name(wanted: str, available: Sequence[str]) -> str:
    """Return the available provider that contains a word.
    Raise UnknownNameError if there is none."""
    exact = [name for name in available if name.lower() == wanted.lower()]
    matches = exact or [name for name in available if wanted.lower() in name.lower()]
    first = min(matches, key=len, default="")
    if all(name.startswith(f"{first}.") for name in matches if name != first):
        # X remains unique if its plugin also registers X.AUTO, which selects a device.
        matches = matches and [first]
    if len(matches) > 1:
        raise UsageError(
            f"Execution provider {wanted!r} is ambiguous: {', '.join(matches)}.",
            hint="Use a longer part of the name.",
        )
    if not matches:
        hint = _install_hint(wanted)
        if built_elsewhere := _provider_of_other_builds(wanted):
            raise UnavailableError(
                f"The installed ONNX Runtime {onnxrt.__version__} is built without"
                f" {built_elsewhere}. It has {', '.join(available)}.",
                backend="onnxruntime",
                hint=hint,
            )
        raise UnknownNameError("Execution provider", wanted, available, hint=hint)
    return matches[0]


def _provider_of_other_builds(wanted: str) -> str:
    """Return the full name of the matching provider in other builds of ONNX Runtime.
    The result is empty without a match."""
    known_names: Sequence[str] = getattr(onnxrt, "get_all_providers", list)()
    matches = [name for name in known_names if wanted.lower() in name.lower()]
    return min(matches, key=len, default="")


def _install_hint(wanted: str) -> str:
    """Return a sentence about the package that has a missing provider; empty if unknown."""
    short = wanted.lower().removesuffix("executionprovider")
    for _, module in plugin_packages():
        name = module.removeprefix("onnxruntime_ep_")
        if short and short in name:
            return f"A plugin for it is installed: add --provider-library {name}={module}."
    package = next(
        (package_name for sign, package_name in _PACKAGES if sign in wanted.lower()), None
    )
    if package is None:
        return ""
    return f"Install a build with this provider: python -m pip install {package}"
