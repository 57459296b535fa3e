"""Cases with planted faults: a healthy model, and a changed copy that is to be diagnosed."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from polygraphy.adapters.processes.forked import call_isolated
from polygraphy.json import save_json

from .case import Case, Culprit
from .converted import CONVERTED
from .exported import EXPORTED
from .hosts import HOSTS, PLANTED, STYLES, Net, cnn, encoder, quantized_network, unet
from .invalid import INVALID, add_lookup, declare_type, embed_invalid
from .joined import JOINED
from .nested import INSIDE
from .other_hosts import OTHERS
from .planting import KINDS, Planted, plant_fault, remove_names, rename_all
from .programs import PROGRAMS, programs
from .real_cases import distance, random_inputs
from .stateful import STATES, healthy_states, stateful
from .wired import WIRED

_ADDRESSES = 6 << 30
"""Bytes of addresses that a changed model may use."""
SHOWS = 1e-3
HIDDEN = (3e-4, 4e-3)
"""The effect of a fault that rounding to half precision hides."""
VERSION = "1.32.0"
WAYS = ("same", "renamed", "optimized", "golden", "saved outputs")
"""What a model is compared with: itself without the fault, in several spellings, or its results."""
Models = dict[str, tuple[onnx.ModelProto, dict[str, np.ndarray], tuple[str, ...]]]


Maker = Callable[[Path, np.random.Generator, Models, int], "Case | None"]


def planted_cases(
    folder: Path,
    models: Models,
    seed: int,
    faulty: int,
    healthy: int,
    ways: Sequence[str] = (),
    take: int = 1,
) -> list[Case]:
    """Draw cases, write every `take`-th, and return those.

    `models` are real ones. `ways` of `WAYS` limit what the models are compared with; other cases
    are left out.
    """
    kinds = [kind for kind in PLANTS if kind != "quantization"]
    turns: list[Maker] = [change_maker(kind, ways or WAYS) for kind in kinds]
    turns += [nested_maker(kind, ways or WAYS) for kind in (*INSIDE, *CONVERTED, *JOINED)]
    healthy_makers: Sequence[Maker] = (partial(_healthy_reference, ways=ways or WAYS),)
    if not ways:
        turns += [quantized_case, not_numbers, not_numbers, _half, _half, _hide_change, two]
        turns += [*map(invalid, INVALID), _wrongly_declared, _wrong_index]
        turns += [_from(stateful, kind) for kind in STATES]
        turns += [_from(programs, kind) for kind in PROGRAMS]
        healthy_makers = (*HEALTHY, *(_from(programs, "healthy") for _ in PROGRAMS[:1]))
    makers = [turns[number % len(turns)] for number in range(faulty)]
    makers += [healthy_makers[number % len(healthy_makers)] for number in range(healthy)]
    cases = []
    for number in range(0, len(makers), take):
        rng = np.random.default_rng([seed, number])
        for _ in range(30):
            case = makers[number](folder, rng, models, number)
            if case is not None:
                cases.append(case)
                break
    return cases


PLANTS = {**KINDS, **EXPORTED, **WIRED}


def _from(make: Callable[..., Iterator[Case]], *kind: str) -> Maker:
    """Return a maker that writes the case of another folder, with the version of this one."""

    def maker(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case | None:
        """Write a case of the kind to a folder; return it, or None without a fault."""
        place = _place(folder, number)
        case = next(make(place, rng, *kind), None)
        if case is not None:
            case = case._replace(version=case.version or VERSION)
            case.save(place)
        return case

    return maker


def host(
    rng: np.random.Generator, build: Any = None, embed: Any = None, style: str = ""
) -> onnx.ModelProto:
    """Return a healthy network."""
    hosts = {**PLANTED, **OTHERS}
    name = "" if build else str(rng.choice(list(hosts)))
    build_host = build or hosts[name]
    opset = 17 if name in OTHERS else 13
    net = Net(int(rng.integers(2**31)), style or str(rng.choice(STYLES[:2])), opset=opset)
    return net.model(build_host(net, embed or (lambda net, t: t), rng.random()))


def outputs(model: onnx.ModelProto, data: dict[str, np.ndarray], *names: str) -> list[np.ndarray]:
    """Return the outputs of a model in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(list(names) or None, data))


def _both(
    healthy: onnx.ModelProto, faulty: onnx.ModelProto, data: dict[str, np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of healthy and faulty outputs, computed in another process.

    ONNX Runtime may crash on a changed model.
    """

    def both() -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs of healthy and faulty outputs, within a limit of memory."""
        # Limit memory, because a changed bound can create a tensor of many gigabytes.
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
        return list(zip(outputs(healthy, data), outputs(faulty, data)))

    return call_isolated(both, what="ONNX Runtime", timeout=60, is_silent=True)


def shows(
    healthy: onnx.ModelProto,
    faulty: onnx.ModelProto,
    data: dict[str, np.ndarray],
    *,
    of_each: bool = False,
) -> bool:
    """Return whether outputs differ, and healthy ones are finite.

    `of_each`: whether many elements differ relative to themselves, not one relative to the output.
    """
    try:
        pairs = _both(healthy, faulty, data)
    except Exception:
        return False
    if not all(np.isfinite(good).all() for good, _ in pairs if good.dtype.kind == "f"):
        return False
    if of_each:
        far = (np.abs(bad - good) > 0.2 * np.abs(good) for good, bad in pairs)
        return any(np.count_nonzero(difference) > 8 for difference in far)
    return max(distance(bad, good) for good, bad in pairs) > SHOWS


def _place(folder: Path, number: int) -> Path:
    """Return a new folder for the case of a number."""
    place = folder / f"planted-{number:03d}"
    place.mkdir(parents=True, exist_ok=True)
    return place


def _case(
    place: Path, kind: str, words: tuple[str, ...], culprits: tuple[Culprit, ...] = ()
) -> Case:
    """Write a case to its folder, and return it."""
    case = Case(
        name=place.name,
        kind=kind,
        group="planted",
        version=VERSION,
        words=("diagnose", "model.onnx", "--onnxrt", *words, "--format", "json"),
        culprits=culprits,
    )
    case.save(place)
    return case


def _culprit(plan: Planted) -> Culprit:
    """Return the culprit that a diagnosis must name for a planted fault."""
    # The cause "nan" is also correct: a fault can, for example, make a variance negative.
    return Culprit(plan.nodes, plan.beside, (plan.party,), (*plan.causes, "nan"))


def against(
    place: Path,
    rng: np.random.Generator,
    healthy: onnx.ModelProto,
    data: dict[str, np.ndarray],
    options: tuple[str, ...] = (),
    ways: Sequence[str] = WAYS,
) -> tuple[str, tuple[str, ...]]:
    """Write the reference of a case; return the name of its kind and the options for it."""
    way = str(rng.choice(ways))
    if way == "saved outputs":
        _save_results(place, healthy, data)
        return way, ("--golden", "golden.json", "--load-inputs", "inputs.json")
    if way == "golden":
        tensors = [name for node in healthy.graph.node for name in node.output if name]
        marked = onnx.ModelProto()
        marked.CopyFrom(healthy)
        output_names = {value.name for value in marked.graph.output}
        marked.graph.output.extend(
            onnx.ValueInfoProto(name=name) for name in tensors if name not in output_names
        )
        onnx.save(marked, place / "marked.onnx")
        _save_results(place, marked, data)
        return way, ("--golden", "golden.json", "--load-inputs", "inputs.json")
    reference = healthy
    if way == "renamed":
        reference = rename_all(healthy)
    if way == "optimized":
        session = onnxruntime.SessionOptions()
        session.log_severity_level = 4
        session.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        session.optimized_model_filepath = str(place / "reference.onnx")
        onnxruntime.InferenceSession(
            healthy.SerializeToString(), session, providers=["CPUExecutionProvider"]
        )
    else:
        onnx.save(reference, place / "reference.onnx")
    return way, ("--reference", "reference.onnx", *options)


def _save_results(place: Path, model: onnx.ModelProto, data: dict[str, np.ndarray]) -> None:
    """Save data and outputs, as `polygraphy run --save-outputs` does."""
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator

    runner = OnnxrtRunner(SessionFromOnnx(model.SerializeToString()))
    Comparator.run([runner], data_loader=[data]).save(str(place / "golden.json"))
    save_json([data], str(place / "inputs.json"))


def change_maker(kind: str, ways: Sequence[str] = WAYS) -> Maker:
    """Return a maker of cases with a changed weight, attribute or structure."""

    def maker(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case | None:
        """Write a case with the change to a folder; return it, or None without a place."""
        options: tuple[str, ...] = ()
        if models and rng.random() < 0.35:
            name = str(rng.choice(list(models)))
            healthy, data, options = models[name]
        else:
            name, healthy = "host", host(rng)
            data = random_inputs(healthy, number)
        plan = plant_fault(healthy, kind, rng, PLANTS)
        return _write_fault(
            folder, rng, number, (healthy, data, options), plan, f"{kind}: {name}", ways
        )

    return maker


def nested_maker(kind: str, ways: Sequence[str] = WAYS) -> Maker:
    """Return a maker of cases with a fault in a subgraph, or in a model that a library wrote."""

    def maker(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case | None:
        """Write a case with the fault in a subgraph; return it, or None without a place."""
        if kind in INSIDE:
            build, plant = INSIDE[kind]
            healthy = host(rng, build)
        else:
            make, plant = {**CONVERTED, **JOINED}[kind]
            healthy = make(rng)
        plan = plant_fault(healthy, kind, rng, {kind: plant})
        return _write_fault(
            folder, rng, number, (healthy, random_inputs(healthy, number), ()), plan, kind, ways
        )

    return maker


def _write_fault(
    folder: Path,
    rng: np.random.Generator,
    number: int,
    model: tuple[onnx.ModelProto, dict[str, np.ndarray], tuple[str, ...]],
    planted_pair: tuple[onnx.ModelProto, Planted] | None,
    kind: str,
    ways: Sequence[str],
) -> Case | None:
    """Write a case if its fault shows in the outputs, and return it, otherwise None."""
    healthy, data, options = model
    of_each = kind in JOINED
    if planted_pair is None or not shows(healthy, planted_pair[0], data, of_each=of_each):
        return None
    faulty, plan = planted_pair
    place = _place(folder, number)
    if any(node.op_type == "If" for node in healthy.graph.node):
        # With other data, the model may take a different branch.
        save_json([data], str(place / "inputs.json"))
        options = ("--load-inputs", "inputs.json")
    try:
        way, words = against(place, rng, healthy, data, options, ways)
    except ValueError:
        return None
    if rng.random() < 0.2:
        plan = plan._replace(nodes=_first_outputs(faulty, plan.nodes) or plan.nodes)
        faulty = remove_names(faulty)
        way += ", unnamed nodes"
    onnx.save(faulty, place / "model.onnx")
    return _case(place, f"{kind}, {way}", words, (_culprit(plan),))


def _first_outputs(model: onnx.ModelProto, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name of the first output of each node."""
    outer = {node.name or node.output[0]: node.output[0] for node in model.graph.node}
    return tuple(outer.get(name, name) for name in names)


def two(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case | None:
    """Write a case with faults in two nodes; return it, or None if they do not show."""
    healthy = host(rng)
    data = random_inputs(healthy, number)
    kinds = rng.choice(["element", "scaled", "attribute", "epsilon", "dropped"], 2, replace=False)
    first = plant_fault(healthy, str(kinds[0]), rng)
    if first is None or not shows(healthy, first[0], data):
        return None
    second = plant_fault(first[0], str(kinds[1]), rng)
    if second is None or not shows(first[0], second[0], data):
        return None
    if set(first[1].nodes) & set(second[1].nodes):
        return None
    place = _place(folder, number)
    way, words = against(place, rng, healthy, data)
    onnx.save(second[0], place / "model.onnx")
    return _case(place, f"two at once: {way}", words, (_culprit(first[1]), _culprit(second[1])))


def quantized_case(
    folder: Path, rng: np.random.Generator, models: Models, number: int
) -> Case | None:
    """Write a case with a fault in a quantized model; return it, or None if it is hidden."""
    healthy = host(rng, quantized_network)
    data = random_inputs(healthy, number)
    plan = plant_fault(healthy, "quantization", rng)
    if plan is None or not shows(healthy, plan[0], data):
        return None
    place = _place(folder, number)
    way, words = against(place, rng, healthy, data, ways=("same", "renamed", "golden"))
    onnx.save(plan[0], place / "model.onnx")
    return _case(place, f"quantization: {way}", words, (_culprit(plan[1]),))


_OF_INVALID = ("refusal", "attribute", "invalid")


def invalid(kind: str) -> Maker:
    """Return a maker of cases with a node that violates the specification."""

    def maker(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case | None:
        """Write a case with an invalid node; return it, or None if no backend rejects it."""
        name = str(rng.choice(list(HOSTS)))
        net = Net(int(rng.integers(2**31)), str(rng.choice(STYLES)))
        try:
            model = net.model(HOSTS[name](net, embed_invalid(kind), rng.random()))
        except onnx.checker.ValidationError:
            return None
        return _invalid_case(
            folder, rng, number, model, f"invalid: {kind}", net.identity(net.core[0])
        )

    return maker


def _wrongly_declared(
    folder: Path, rng: np.random.Generator, models: Models, number: int
) -> Case | None:
    """Write a case with a wrong declared data type; return it, or None."""
    model = host(rng)
    return _invalid_case(folder, rng, number, model, "invalid: declared", declare_type(model, rng))


def _wrong_index(
    folder: Path, rng: np.random.Generator, models: Models, number: int
) -> Case | None:
    """Write a case whose data contain an invalid index; return it, or None."""
    model = host(rng, HOSTS[str(rng.choice(["cnn", "encoder"]))] if "cnn" in HOSTS else cnn)
    node, more = add_lookup(model, rng)
    data = {**random_inputs(model, number), **more}
    place = _place(folder, number)
    save_json([data], str(place / "inputs.json"))
    onnx.save(model, place / "model.onnx")
    words = ("--load-inputs", "inputs.json", *(("--onnx",) if rng.random() < 0.5 else ()))
    return _case(place, "invalid: data", words, (Culprit((node,), (), ("data",), ("data",)),))


def _invalid_case(
    folder: Path,
    rng: np.random.Generator,
    number: int,
    model: onnx.ModelProto,
    kind: str,
    node: str,
) -> Case | None:
    """Write a case with an invalid model; return it, or None if ONNX Runtime accepts it."""
    place = _place(folder, number)
    onnx.save(model, place / "model.onnx")
    if _is_run(place / "model.onnx"):  # ONNX Runtime accepts this invalid model.
        return None
    # A wrong declaration only shows in comparison with another backend.
    words = ("--onnx",) if kind == "invalid: declared" or rng.random() < 0.5 else ()
    return _case(place, kind, words, (Culprit((node,), (), ("model",), _OF_INVALID),))


def _is_run(model: Path) -> bool:
    """Return whether ONNX Runtime runs a model, tried in another process."""
    data = random_inputs(onnx.load(model), 0)
    try:
        call_isolated(
            lambda: outputs(onnx.load(model), data), what="ONNX Runtime", timeout=60, is_silent=True
        )
    except Exception:
        return False
    return True


def not_a_number(op: str, broken: bool) -> Callable[[Net, str], str]:
    """Return a function that adds a Log, Sqrt or Div, which computes NaN if `broken`."""

    def build(net: Net, t: str) -> str:
        """Add the operator that computes NaN, and return the name of the output."""
        if op == "Div":
            high = net.same("Relu", t)
            low = net.same("Add", high, net.constant(0.0 if broken else 0.3))
            with net.culprit():
                output = net.same("Div", high, low)
        else:
            low = net.same("Add", net.same("Abs", t), net.constant(-0.3 if broken else 0.3))
            with net.culprit():
                output = net.same(op, low)
        return net.same("Add", t, output)

    return build


def not_numbers(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case | None:
    """Write a case in which NaN arises, with or without a healthy reference; return it."""
    op, name = str(rng.choice(["Log", "Sqrt", "Div"])), str(rng.choice(list(HOSTS)))
    seed, style, at = int(rng.integers(2**31)), str(rng.choice(STYLES)), rng.random()
    nets = [Net(seed, style), Net(seed, style)]
    pair_of_models = [
        net.model(HOSTS[name](net, not_a_number(op, broken), at))
        for net, broken in zip(nets, (False, True))
    ]
    data = random_inputs(pair_of_models[0], number)
    if not shows(pair_of_models[0], pair_of_models[1], data):
        return None
    place = _place(folder, number)
    onnx.save(pair_of_models[1], place / "model.onnx")
    alone = rng.random() < 0.5
    core = nets[1].core[0]
    changed = nets[1].identity(nets[1].nodes[nets[1].nodes.index(core) - 1])
    if alone:
        culprit = Culprit((nets[1].identity(core),), (changed,), ("model", "onnxrt"), ("nan",))
        return _case(place, f"nan: {op} alone", (), (culprit,))
    way, words = against(place, rng, pair_of_models[0], data, ways=("same", "renamed"))
    nodes = (nets[1].identity(core), changed)
    culprit = Culprit(nodes, (), ("model",), ("nan", "weight"))
    return _case(place, f"nan: {op}, {way}", words, (culprit,))


def narrow(kind: str) -> Callable[[Net, str], str]:
    """Return a function that adds a pattern which fp32 represents and fp16 does not."""

    def build(net: Net, t: str) -> str:
        """Add a pattern that half precision cannot represent, and return its output's name."""
        if kind == "overflow":
            large = net.same("Mul", t, net.constant(600.0))
            with net.culprit():
                squared = net.same("Mul", large, large)
            output = net.same("Sqrt", net.same("Add", squared, net.constant(1.0)))
            return net.same("Add", t, net.same("Mul", output, net.constant(1 / 600)))
        if kind == "underflow":
            small = net.same("Mul", t, net.constant(2e-4))
            with net.culprit():
                squared = net.same("Mul", small, small)
            output = net.same("Mul", net.same("Sqrt", squared), net.constant(5e3))
            return net.same("Add", t, output)
        # Divide a row of zeros by its standard deviation, which is zero without the epsilon.
        zeros = net.same("Mul", t, net.constant(0.0))
        with net.culprit():
            variance = net.same("Add", net.same("Mul", zeros, zeros), net.constant(1e-9))
        output = net.same("Div", zeros, net.same("Sqrt", variance))
        return net.same("Add", t, output)

    return build


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model in half precision, with float32 inputs and outputs."""
    from polygraphy.backend.onnx import ConvertToFp16

    return ConvertToFp16(model)()


def _half(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case | None:
    """Write a case with a loss of half precision; return it, or None without a loss."""
    kind = str(rng.choice(["overflow", "underflow", "epsilon"]))
    name = str(rng.choice(list(HOSTS)))
    net = Net(int(rng.integers(2**31)), str(rng.choice(STYLES)))
    model = net.model(HOSTS[name](net, narrow(kind), rng.random()))
    place = _place(folder, number)
    core = [net.identity(node) for node in net.core]
    names = {name for node in net.core for name in node.output}
    readers = [net.identity(node) for node in net.nodes if names.intersection(node.input)]
    culprit = Culprit(tuple(core), tuple(readers), ("model", "onnxrt", "onnx"), (kind,))
    if kind == "epsilon":
        culprit = culprit._replace(causes=("epsilon", "underflow"))
    way = str(rng.choice(["--fp-to-fp16", "reference", "two backends"]))
    if way == "two backends":
        onnx.save(half(model), place / "model.onnx")
        return _case(place, f"fp16 {kind}: two backends", ("--onnx",), (culprit,))
    if way == "reference":
        onnx.save(model, place / "reference.onnx")
        onnx.save(half(model), place / "model.onnx")
        # On the CPU, ONNX Runtime computes in float32, and loses no precision.
        title, options = "with its fp32", ("--onnx", "--reference", "reference.onnx")
    else:
        onnx.save(model, place / "model.onnx")
        title, options = "would it work", ("--fp-to-fp16",)
    case = Case(
        place.name, f"fp16 {kind}: {title}", "planted", VERSION,
        ("diagnose", "model.onnx", *options, "--format", "json"), (culprit,),
    )  # fmt: skip
    case.save(place)
    return case


def _hide_change(
    folder: Path, rng: np.random.Generator, models: Models, number: int
) -> Case | None:
    """Write a case with a change too small for `run --rtol auto`; return it, or None."""
    healthy = host(rng)
    plan = plant_fault(healthy, "slightly", rng, PLANTS)
    if plan is None:
        return None
    faulty, planted_fault = half(plan[0]), plan[1]
    data = random_inputs(healthy, number)
    try:
        pairs = _both(half(healthy), faulty, data)
    except Exception:
        return None
    if not HIDDEN[0] < max(distance(bad, good) for good, bad in pairs) < HIDDEN[1]:
        return None
    place = _place(folder, number)
    onnx.save(faulty, place / "model.onnx")
    onnx.save(half(healthy), place / "reference.onnx")
    return _case(
        place, "hidden, half", ("--reference", "reference.onnx"), (_culprit(planted_fault),)
    )


def _healthy_reference(
    folder: Path,
    rng: np.random.Generator,
    models: Models,
    number: int,
    ways: Sequence[str] = WAYS,
) -> Case | None:
    """Write a case without a fault, compared with a reference; return it, or None."""
    options: tuple[str, ...] = ()
    if models and rng.random() < 0.4:
        name = str(rng.choice(list(models)))
        model, data, options = models[name]
    elif rng.random() < 0.2:
        name, (make, _) = list(JOINED.items())[int(rng.integers(len(JOINED)))]
        model = make(rng)
        data = random_inputs(model, number)
    else:
        name, model = "host", host(rng)
        data = random_inputs(model, number)
    place = _place(folder, number)
    try:
        way, words = against(place, rng, model, data, options, ways)
    except ValueError:
        return None
    onnx.save(model, place / "model.onnx")
    return _case(place, f"healthy: {name}, {way}", words)


def _healthy_backends(
    folder: Path, rng: np.random.Generator, models: Models, number: int
) -> Case | None:
    """Write a healthy case of two backends; return it, or None if it does not run."""
    options: tuple[str, ...] = ()
    if models and rng.random() < 0.4:
        name = str(rng.choice(list(models)))
        model, _, options = models[name]
    else:
        build = [cnn, encoder, unet, quantized_network][int(rng.integers(4))]
        name, model = build.__name__, host(rng, build)
    place = _place(folder, number)
    onnx.save(model, place / "model.onnx")
    return _case(place, f"healthy: {name}, two backends", ("--onnx", *options))


def _is_loaded(model: Path) -> bool:
    """Return whether ONNX Runtime loads a model, tried in another process."""
    line = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", line, str(model)], capture_output=True, check=False
    )
    return done.returncode == 0


def _healthy_half(
    folder: Path, rng: np.random.Generator, models: Models, number: int
) -> Case | None:
    """Write a healthy case in half precision; return it, or None if it does not run."""
    model = host(rng)
    place = _place(folder, number)
    onnx.save(half(model), place / "model.onnx")
    if not _is_loaded(place / "model.onnx"):
        return None
    if rng.random() < 0.5:
        return _case(place, "healthy: fp16, two backends", ("--onnx",))
    onnx.save(model, place / "reference.onnx")
    return _case(place, "healthy: fp16 with its fp32", ("--reference", "reference.onnx"))


def _ill_conditioned(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case:
    """Write a healthy case that normalizes nearly constant rows; return it."""

    def embed(net: Net, t: str) -> str:
        """Add a pattern that amplifies rounding, and return the name of its output."""
        width = net.shapes[t][-1]
        flat = net.same("Add", net.same("Mul", t, net.constant(3e-6)), net.constant(7.0))
        centered = net.same("Sub", flat, net.reduce("ReduceMean", flat, [-1]))
        squared = net.node("Mul", centered, centered)
        spread = net.node(
            "Sqrt", net.node("Add", net.reduce("ReduceMean", squared, [-1]), net.constant(1e-14))
        )
        output = net.same("Div", centered, spread)
        return net.same("Add", t, net.same("Mul", output, net.constant(np.ones(width))))

    model = host(rng, embed=embed)
    place = _place(folder, number)
    onnx.save(model, place / "model.onnx")
    return _case(place, "healthy: ill-conditioned", ("--onnx",))


def _other_data(folder: Path, rng: np.random.Generator, models: Models, number: int) -> Case:
    """Write a case whose saved results come from other data; return it."""

    model = host(rng)
    place = _place(folder, number)
    _save_results(place, model, random_inputs(model, number))
    save_json([random_inputs(model, number + 1000)], str(place / "inputs.json"))
    onnx.save(model, place / "model.onnx")
    words = ("--golden", "golden.json", "--load-inputs", "inputs.json")
    return _case(place, "healthy: other data", words)


HEALTHY = (
    _from(healthy_states),
    _healthy_reference,
    _healthy_backends,
    _healthy_half,
    _ill_conditioned,
    _healthy_reference,
    _other_data,
    _healthy_backends,
)
