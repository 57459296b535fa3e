"""A third backend is diagnosed by implementing the port: a fake one proves it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.binding import bind
from polygraphy.comparator import StepLoader
from polygraphy.diagnose import diagnose, diagnose_half
from polygraphy.domain.diagnosis.culprit import Attempt, DiagnosisResult
from polygraphy.domain.diagnosis.versions import Span
from polygraphy.domain.errors import BackendError, InconclusiveError, UsageError
from polygraphy.domain.ports import command_line
from polygraphy.ports.diagnosing import REFERENCE, DiagnosisReports, SuspectedParty
from polygraphy.ports.reporting import Findings
from polygraphy.ports.running import open_environment
from tests.support.diagnosis.diagnosis_cases import Kept, network
from tests.support.diagnosis.node_builder import Builder
from tests.support.facts import facts_of
from tests.support.models import make, value
from tests.support.parties import WrongRewriter, command_of_fakes


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept()
    with bind(Findings, made):
        yield made


def test_a_rewrite_of_a_third_backend_is_named(kept: Kept) -> None:
    with bind(command_line, command_of_fakes):
        assert not diagnose(network(), [WrongRewriter(), OnnxParty()])
    [culprit] = kept.culprits
    assert kept.verdict == "fault"
    assert culprit["nodes"] == ["exp1", "log1"]
    assert (culprit["party"], culprit["cause"], culprit["rewrite"]) == (
        "wrong", "rewrite", "ExpLogFusion",
    )  # fmt: skip
    assert culprit["remedy"] == {
        "command": "polygraphy run model_file=MODEL runners=('wrong',) without=('ExpLogFusion',)"
        " runners=('onnx',) seed=3 val_range={'x': (-3.0, 3.0)}", "proven": True, "note": "", "facts": [],
    }  # fmt: skip
    assert culprit["tensor"] == "l1"


def test_a_backend_with_a_name_is_blamed_by_that(kept: Kept) -> None:
    fused = WrongRewriter()
    fused.name = "fused"  # type: ignore[misc]
    with bind(command_line, command_of_fakes):
        assert not diagnose(network(), [fused, OnnxParty(name="right")])
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["rewrite"]) == ("fused", "ExpLogFusion")
    assert "fused" in culprit["evidence"][0]
    command = culprit["remedy"]["command"]
    assert "runner:fused=runners=('wrong',) without=('ExpLogFusion',)" in command
    assert "runner:right=runners=('onnx',)" in command


class Secretive(WrongRewriter):
    """Does not show the graph that it runs."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        return OnnxParty().load(model if plain else super().runtime_graph(model, without=without))

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        return None


def test_that_all_matches_without_rewrites_is_said_where_no_node_can_be_named() -> None:
    said = "All outputs match with all rewrites of wrong disabled: polygraphy run .* plain=True"
    with pytest.raises(InconclusiveError, match=said), bind(command_line, command_of_fakes):
        diagnose(network(), [Secretive(), OnnxParty()])


class Agreeing(OnnxParty):
    """Rewrites nothing that matters."""

    name, rewrites = "agreeing", True


def test_that_a_party_matches_anyway_is_not_said_of_its_rewrites() -> None:
    with pytest.raises(InconclusiveError, match="rewrites of wrong disabled") as caught:
        diagnose(network(), [Secretive(), Agreeing(), OnnxParty()])
    assert "rewrites of agreeing" not in str(caught.value)


class Refusing(OnnxParty):
    """Refuses what has a Tanh."""

    name = "refusing"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        if any(node.op_type == "Tanh" for node in model.graph.node):
            raise BackendError("There is no Tanh", backend=self.name)
        return super().load(model)


@pytest.mark.slow
def test_where_one_backend_refuses_the_others_are_compared(kept: Kept) -> None:
    assert not diagnose(network(), [Refusing(), WrongRewriter(), OnnxParty()])
    refused, wrong = kept.culprits
    assert (refused["party"], refused["cause"]) == ("refusing", "refusal")
    assert (wrong["nodes"], wrong["party"]) == (["exp1", "log1"], "wrong")
    assert wrong["remedy"]["proven"]


def test_nodes_without_names_go_by_their_first_output(kept: Kept) -> None:
    assert not diagnose(network(named=False), [WrongRewriter(), OnnxParty()])
    assert kept.culprits[0]["nodes"] == ["e1", "l1"]


def test_several_places_are_all_named(kept: Kept) -> None:
    assert not diagnose(network((0, 3)), [WrongRewriter(), OnnxParty()])
    assert [one["nodes"] for one in kept.culprits] == [["exp0", "log0"], ["exp3", "log3"]]
    assert all(one["remedy"]["proven"] for one in kept.culprits)


def test_two_passes_that_do_the_same_are_named_together(kept: Kept) -> None:
    party = WrongRewriter(("ExpLogFusion", "LogExpCleanup"))
    assert not diagnose(network(), [party, OnnxParty()])
    assert kept.culprits[0]["rewrite"] == "ExpLogFusion+LogExpCleanup"


@pytest.mark.slow
def test_a_refusal_is_reduced_to_the_nodes_that_are_refused(kept: Kept) -> None:
    assert not diagnose(network(), [WrongRewriter(refuses=True), OnnxParty()])
    [culprit] = kept.culprits
    assert culprit["nodes"] == ["exp1", "log1"]
    assert (culprit["cause"], culprit["rewrite"]) == ("refusal", "ExpLogFusion")
    assert culprit["remedy"]["proven"]
    assert any("not a graph input" in sentence for sentence in culprit["evidence"])


def test_nobody_is_blamed_without_what_is_rewritten_wrongly(kept: Kept) -> None:
    assert diagnose(network(()), [WrongRewriter(), OnnxParty()])
    assert (kept.verdict, kept.culprits) == ("agree", [])


def test_without_backends_there_is_nothing_to_do() -> None:
    with pytest.raises(UsageError, match="No backend"):
        diagnose(network(), [])


class Elsewhere:
    """Environments whose paths are versions of the wrong backend: right from 1.4.0 on. One before
    has a wrong operator instead of a wrong rewrite."""

    def __init__(self, saves_graph: bool = True) -> None:
        self.runs: list[str] = []
        self._saves_graph = saves_graph

    def __call__(self, path: str) -> Any:
        if path == "broken":
            raise BackendError(f"{path}: No module named wrong")
        made = SimpleNamespace(path=path, version=path, install=f"pip install wrong=={path}")
        made.version = "1.2.0" if path == sys.executable else path

        def run(model: Any, feed: Any, settings: Any) -> Any:
            self.runs.append(path)
            if path == "1.1.5":
                raise BackendError(f"{path}: it has no such option")
            is_right = path >= "1.4.0" or path == "1.0.0" or settings.get("plain")
            party = OnnxParty() if is_right else WrongRewriter()
            if path == "1.0.0":
                model = onnx.ModelProto.FromString(model.SerializeToString())
                for node in model.graph.node:
                    node.op_type = "Abs" if node.op_type == "Log" else node.op_type
            return party.load(model)(feed)

        made.run, made.saves_graph = run, self._saves_graph
        made.runtime_graph = lambda model, settings: (
            WrongRewriter().runtime_graph(model) if self._saves_graph else None
        )
        return made


class Unmendable(WrongRewriter):
    """One whose rewrite cannot be switched off in the whole model."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        is_whole = (
            len(model.graph.node) == len(network().graph.node) and len(model.graph.output) == 1
        )
        return super().load(
            model, plain=plain and not is_whole, without=() if is_whole else without
        )


@pytest.mark.parametrize("make", [WrongRewriter, Unmendable])
def test_a_version_that_is_right_is_found_among_environments(make: Any, kept: Kept) -> None:
    elsewhere = Elsewhere()
    paths = ["1.5.0", "broken", "1.1.0", "1.3.0", "1.4.0"]
    with bind(open_environment, elsewhere, "wrong"):
        assert not diagnose(network(), [make(), OnnxParty()], environments=paths)
    [culprit] = kept.culprits
    facts = facts_of(culprit)
    span = facts["versions_tried"]["span"]
    assert (span.first, span.last, span.before, span.after) == (
        "1.1.0",
        "1.3.0",
        None,
        "1.4.0",
    )
    assert facts["other_version_matches"]["version"] == "1.4.0"
    installed = {"command": "pip install wrong==1.4.0", "proven": True, "note": "", "facts": []}
    assert (culprit["remedy"] == installed) == (make is Unmendable)
    assert len(elsewhere.runs) == len(set(elsewhere.runs)) <= 4


def test_a_version_that_does_not_run_the_model_is_not_wrong(kept: Kept) -> None:
    with bind(open_environment, Elsewhere(), "wrong"):
        assert not diagnose(network(), [WrongRewriter(), OnnxParty()], environments=["1.1.5"])
    [culprit] = kept.culprits
    facts = facts_of(culprit)
    assert facts["versions_tried"]["span"] == Span("1.2.0", "1.2.0", None, None)
    assert facts["version_refuses"]["message"] == "1.1.5: it has no such option"


def test_a_backend_alone_is_compared_with_its_other_versions(kept: Kept) -> None:
    with bind(open_environment, Elsewhere(), "wrong"):
        assert not diagnose(network(), [WrongRewriter()], environments=["1.1.0", "1.4.0"])
        [culprit] = kept.culprits
        assert (culprit["nodes"], culprit["party"]) == (["exp1", "log1"], "wrong")
        assert facts_of(culprit)["versions_tried"]["span"].after == "1.4.0"
        assert diagnose(network(()), [WrongRewriter()], environments=["1.1.0", "1.4.0"])


def test_other_versions_are_compared_also_where_backends_match() -> None:
    said = r"wrong 1.2.0 and 1.1.0 give different results."
    different = pytest.raises(InconclusiveError, match=said)
    lines: dict[str, str] = {}

    class Reports:
        def show_attempt(self, attempt: Attempt) -> None:
            lines[attempt.title] = attempt.result

        def show_result(self, result: DiagnosisResult) -> None: ...

    elsewhere = Elsewhere(saves_graph=False)
    with bind(open_environment, elsewhere, "wrong"), bind(DiagnosisReports, Reports()), different:
        diagnose(network(), [WrongRewriter(guilty=()), OnnxParty()], environments=["1.1.0"])
    assert lines["other versions, onnx"] == "This backend cannot run in other environments."


@pytest.mark.parametrize("others", [[], [OnnxParty()]])
def test_a_version_that_differs_from_one_that_the_arbiter_confirms_is_at_fault(
    others: list[Any], kept: Kept
) -> None:
    parties = [WrongRewriter(guilty=()), *others]
    with bind(open_environment, Elsewhere(), "wrong"):
        assert not diagnose(network(), parties, environments=["1.0.0"])
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["cause"]) == ("wrong 1.0.0", "kernel")
    assert culprit["nodes"] == ["log1"]
    span = facts_of(culprit)["versions_tried"]["span"]
    assert (span.first, span.after) == ("1.0.0", "1.2.0")
    assert culprit["remedy"]["command"] == "pip install wrong==1.2.0"


def test_nodes_that_a_version_rewrites_incorrectly_are_named(kept: Kept) -> None:
    with bind(open_environment, Elsewhere(), "wrong"):
        assert not diagnose(network(), [WrongRewriter(guilty=())], environments=["1.1.0"])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["exp1", "log1"], "rewrite")
    assert "right_without_rewrites" in facts_of(culprit)
    assert culprit["remedy"]["command"] == "pip install wrong==1.2.0"


def test_a_version_without_a_wrong_node_is_named_as_wrong_if_the_arbiter_confirms_the_other() -> (
    None
):
    said = "onnx confirms 1.2.0, so wrong 1.1.0 is wrong, but no single node shows it."
    different = pytest.raises(InconclusiveError, match=said)
    with bind(open_environment, Elsewhere(saves_graph=False), "wrong"), different:
        diagnose(network(), [WrongRewriter(guilty=())], environments=["1.1.0"])


@pytest.mark.parametrize("others", [["1.2.0"], []])
def test_where_no_other_version_is_there_it_is_compared_with_nothing(others: list[str]) -> None:
    paths = [sys.executable, *others]
    said = "Not compared with other versions: .*same version of wrong.*nothing to compare with"
    missing = pytest.raises(InconclusiveError, match=said)
    with bind(open_environment, Elsewhere(), "wrong"), missing:
        diagnose(network(), [WrongRewriter()], environments=paths)


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["1.4.0", "broken"], "broken: No module named wrong"),
        (["1.4.0", "1.1.5"], "it has no such option"),
        ([sys.executable], "same version of wrong .1.2.0."),
    ],
)
def test_an_environment_that_was_not_compared_leaves_the_question_open(
    paths: list[str], said: str
) -> None:
    healthy = [WrongRewriter(guilty=()), OnnxParty()]
    with bind(open_environment, Elsewhere(), "wrong"):
        with pytest.raises(InconclusiveError, match=said):
            diagnose(network(()), healthy, environments=paths)
        assert diagnose(network(()), healthy, environments=["1.4.0", "1.4.0"])


def test_a_backend_without_other_versions_leaves_the_question_open() -> None:
    said = "Not compared with other versions: 1.4.0: This backend cannot run in other environments"
    with pytest.raises(InconclusiveError, match=said):
        diagnose(network(()), [OnnxParty()], environments=["1.4.0"])


def test_other_versions_are_compared_also_beside_a_backend_in_half_precision() -> None:
    said = "wrong 1.2.0 and 1.1.0 give different results."
    parties = [WrongRewriter(guilty=()), Builder()]
    with bind(open_environment, Elsewhere(), "wrong"), pytest.raises(InconclusiveError, match=said):
        diagnose(network(), parties, environments=["1.1.0"])


class Unwilling(WrongRewriter):
    """One that runs no model."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        raise BackendError("no such kernel", backend=self.name)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("1.4.0", "wrong 1.4.0 runs the model, and 1.2.0 rejects it. .*no such kernel"),
        ("1.1.5", "^No backend could run the model: no such kernel"),
    ],
)
def test_other_versions_are_asked_also_where_the_version_here_rejects_the_model(
    other: str, said: str
) -> None:
    elsewhere, nobody = Elsewhere(), bind(SuspectedParty, Unwilling(), REFERENCE)
    there = bind(open_environment, elsewhere, "wrong")
    with nobody, there, pytest.raises(InconclusiveError, match=said):
        diagnose(network(()), [Unwilling()], environments=[other])
    assert {*elsewhere.runs} == {other}


def test_the_errors_of_versions_are_those_from_the_reference() -> None:
    changed = network()
    changed.graph.node[-1].op_type = "Abs"
    notes: list[str] = []
    reports = SimpleNamespace(
        show_attempt=lambda attempt: notes.append(attempt.result), show_result=lambda result: None
    )
    with bind(open_environment, Elsewhere(), "wrong"), bind(DiagnosisReports, reports):
        parties = [WrongRewriter(guilty=())]
        assert not diagnose(changed, parties, reference=network(), environments=["1.1.0"])
    assert "give different results. Their largest errors are" in " ".join(notes)


def test_other_versions_are_compared_also_where_the_model_is_at_fault(kept: Kept) -> None:
    changed = network()
    changed.graph.node[-1].op_type = "Abs"
    elsewhere, parties = Elsewhere(), [WrongRewriter(guilty=())]
    notes: list[str] = []
    reports = SimpleNamespace(
        show_attempt=lambda attempt: notes.append(attempt.result), show_result=lambda result: None
    )
    paths = ["1.4.0", sys.executable]
    with bind(open_environment, elsewhere, "wrong"), bind(DiagnosisReports, reports):
        assert not diagnose(changed, parties, reference=network(), environments=paths)
    assert elsewhere.runs
    assert f"Not compared with other versions: {sys.executable}: it has the same" in " ".join(notes)


def test_other_versions_run_the_model_in_half_precision() -> None:
    elsewhere, parties = Elsewhere(), [WrongRewriter(guilty=())]
    with (
        bind(open_environment, elsewhere, "wrong"),
        pytest.raises(InconclusiveError, match=r"wrong 1.2.0 and 1.1.0 give different results"),
    ):
        diagnose_half(network(), parties=parties, environments=["1.1.0"])
    with bind(open_environment, elsewhere, "wrong"):
        assert diagnose_half(network(()), parties=parties, environments=["1.4.0"])
    with pytest.raises(UsageError, match="--environments has no backend"):
        diagnose_half(network(()), environments=["1.4.0"])


def test_environments_of_which_none_can_be_used_are_refused_before_anything_is_compared() -> None:
    refused = pytest.raises(BackendError, match="broken: No module named wrong")
    with bind(open_environment, Elsewhere(), "wrong"), refused:
        diagnose(network(()), [WrongRewriter(), OnnxParty()], environments=["broken"])


class WrongOnSomeData(WrongRewriter):
    """Computes large data wrongly whatever is rewritten."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = super().load(model, plain=plain, without=without)

        def changed(feed: Any) -> Any:
            is_large = "x" in feed and feed["x"].max() > 1
            return {n: v + 1e-2 if is_large else v for n, v in compute(feed).items()}

        return changed


@pytest.mark.parametrize(("largest", "is_proven"), [(0.7, True), (2, False)])
def test_a_remedy_of_a_rewrite_is_proven_on_all_data(
    largest: float, is_proven: bool, kept: Kept
) -> None:
    data = [{"x": np.full((3, 6), value, np.float32)} for value in (-0.9, largest)]
    with bind(command_line, command_of_fakes):
        assert not diagnose(network(), [WrongOnSomeData(), OnnxParty()], data)
    assert [one["remedy"]["proven"] for one in kept.culprits] == [is_proven]


def sums(factor: float, weight: float = 1.0, window: int = 99) -> onnx.ModelProto:
    """A state that grows by what is read, kept by a factor that is undone where it is used; the
    last rows are summed.
    """
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"], "weigh"),
        helper.make_node("Mul", ["h", "f"], ["kept"], "keep"),
        helper.make_node("Concat", ["past", "kept"], ["present"], "join", axis=1),
        helper.make_node("Div", ["present", "f"], ["all"], "undo"),
        helper.make_node("Slice", ["all", "from", "to", "axes"], ["last"], "window"),
        helper.make_node("ReduceSum", ["last", "axes"], ["y"], "sum", keepdims=0),
    ]
    weights = {"w": np.float32(weight), "f": np.float32(factor), "axes": np.array([1])}
    weights |= {"from": np.array([-window]), "to": np.array([99])}
    ends = [value("x", [1, "t", 4]), value("past", [1, "p", 4])], [
        value("y", [1, 4]),
        value("present", [1, "n", 4]),
    ]
    return make("sums", nodes, *ends, weights=weights)


@pytest.mark.parametrize("given", [None, "steps"])
def test_an_output_that_is_a_state_is_compared_if_there_is_no_other(
    given: str | None, kept: Kept
) -> None:
    """No other output shows that the state is wrong."""

    def cell(op: str) -> onnx.ModelProto:
        return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            cell (float[1,4] x, float[1,4] past) => (float[1,4] present)
            {{ sum = Add(x, past)  present = {op}(sum) }}""")

    model = cell("Sin")
    loader = StepLoader(model, 4) if given else None
    diagnose(model, [OnnxParty()], loader, reference=cell("Tanh"))
    assert kept.verdict == "fault"
    assert kept.culprits[0]["op"] == "Sin"


@pytest.mark.parametrize(
    ("weight", "window", "culprit"), [(1.0, 99, ""), (1.5, 99, "weigh"), (1.0, 60, "window")]
)
def test_states_that_hold_other_values_are_no_fault(
    weight: float, window: int, culprit: str, kept: Kept
) -> None:
    """A window that is too small shows when more rows were read."""
    diagnose(sums(3.0, weight, window), [OnnxParty()], reference=sums(1.0))
    assert kept.verdict == ("fault" if culprit else "agree")
    assert not culprit or any(culprit in one["nodes"] for one in kept.culprits)
    if not culprit:
        assert "its own states" in kept.summary


class RefusesEveryModel(OnnxParty):
    """Runs no model."""

    name = "refusing"

    def load(self, *args: Any, **options: Any) -> Any:
        raise BackendError("There is no kernel for it.")


def test_a_single_backend_is_compared_with_a_baseline_that_runs_the_model(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    with bind(command_line, command_of_fakes):
        assert not diagnose(network(), [WrongRewriter()], baseline=OnnxParty(name="right"))
        assert [culprit["rewrite"] for culprit in kept.culprits] == ["ExpLogFusion"]
        assert not diagnose(network(), [WrongRewriter()], baseline=RefusesEveryModel())
        assert [culprit["rewrite"] for culprit in kept.culprits] == ["ExpLogFusion"]
    assert "Cannot run: There is no kernel for it." in capsys.readouterr().out
