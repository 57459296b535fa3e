"""Step: a quantized model has to be as good as the user asks; which parameter is wrong, or which
few nodes must stay in floating point.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.application.diagnose.comparisons.model_pair import ModelComparison, pair_models
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, Unexplained
from polygraphy.application.diagnose.steps.quantized.again import (
    RepeatedQuantization,
    measure_again,
)
from polygraphy.application.diagnose.steps.quantized.code_steps import CodeSearch
from polygraphy.application.diagnose.steps.quantized.memory import answer_by_weights, missing_memory
from polygraphy.application.diagnose.steps.quantized.repair import (
    Repair,
    find_repair,
    wrong_parameters,
)
from polygraphy.application.diagnose.steps.quantized.runs import GoalRuns, are_equal, reduce_metric
from polygraphy.application.diagnose.steps.quantized.switches import Switches, expect_powers
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.diagnosis.words import titles
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.quantization.alternatives import alternatives
from polygraphy.domain.quantization.goal import QuantizedGoal
from polygraphy.domain.quantization.lines import (
    excluded_names,
    exclusion,
    halves_another_range,
    has_unnamed,
    nodes_by_quantizer,
)
from polygraphy.domain.quantization.losses import SiteLoss
from polygraphy.domain.quantization.measuring import measure_losses
from polygraphy.domain.quantization.metrics import Outputs, RmsRatio
from polygraphy.domain.quantization.powers import PowerSum
from polygraphy.domain.quantization.requantization import Requantization
from polygraphy.domain.quantization.rules import Rules, rules_of
from polygraphy.domain.quantization.search import Search, SetSearch, curve_at
from polygraphy.domain.quantization.sites import nearest_before
from polygraphy.ports.diagnosing import QuantizedModel, find_code_tensors, open_quantized
from polygraphy.ports.editing import open_model
from polygraphy.ports.machine import release_memory

_LEAST_RUNS = 20
"""Least runs of the model with switches without `--budget`. The limit is in runs and not in
seconds, so that a busy machine gives the same answer."""
_RANKING = 0.4
"""The share of the runs, or of the time, for what each site loses by itself; the rest is for sets.
"""
_MOST_SETS = 100_000
"""Most sets that are run if the user sets the time."""
_LEAST_SEARCH = 0.3
"""The least share of `--budget` for the search of sets. Chosen, not measured."""
_EXACT = 1e-3
"""Without quantization, the model may differ from its reference by this share of the RMS: more
than float32 rounding accumulates to, and less than 8 bits lose."""
_CLOSER = 0.75
"""A backend is at fault if its error is at most this share when it runs differently. Chosen, not
measured."""
_NEARLY = 1.05
"""A set is run in the backend if the model with switches is at most this factor above the target.
Chosen, not measured."""
_SATURATING = 16
"""Most operators of which each is run alone in integers, to find the one that saturates."""
_CHECKED = 60
"""Most sets that are run in the backend."""
_SHARED, _SHARED_RATIO = 0.05, 4.0
"""One scale for all channels is reported if the worst channel loses more than this share, and this
multiple of its loss with its own scale. Chosen, not measured."""
_AGAIN, _LEAST_AGAIN = 600.0, 10.0
"""Seconds after which the quantizer is stopped, and the least if the user gives the time: only one
that hangs takes that long, also on a busy machine. Chosen, not measured."""
_FEW = 8
"""Up to this number, nodes are named even if they are more than half of all. Chosen, not measured.
"""


def reach_quantized_goal(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the changes a quantized model needs to reach its goal;
    a skip without a goal, or if the models differ in more than quantization.
    """
    if comparison.pair.goal is None:
        return Skip("no target is set")
    search = _GoalSearch(case, comparison, comparison.pair.goal)
    outcome = search.outcome()
    return search.runs.explain_missing_file(outcome) if isinstance(outcome, Found) else outcome


class _GoalSearch:
    """Searches changes with which a quantized model reaches its goal.

    Args:
        case: the quantized model.
        comparison: the model and its reference.
        goal: the goal of the model.

    Attributes:
        runs: runs models on the data, and saves the one that reaches the goal.
    """

    def __init__(self, case: Case, comparison: ModelComparison, goal: QuantizedGoal) -> None:
        """Set the model, its reference, and the goal."""
        self._case, self._comparison, self._goal = case, comparison, goal
        self._party = comparison.pair.party
        self._feeds = list(comparison.feeds)
        self.runs = GoalRuns(case, comparison, goal)
        self._judge, self._run = self.runs.judge, self.runs.run
        self._rms = self.runs.rms

    def outcome(self) -> StepOutcome:
        """Return the outcome of the search for the goal."""
        case, goal = self._case, self._goal
        before = self._judge(self._comparison.values)
        with case.record_step("goal") as notes:
            notes.append(words.metric_value(goal.name, before, goal.within, len(self._feeds)))
        if isinstance(early := self._answer_without_search(before), Found):
            return early
        model = self._open_model()
        with case.record_step("sites") as notes:
            notes.append(words.sites_found(model.sites))
        if not model.sites:
            return Skip("no site can be switched off")
        in_float = self._run(model.float_at_sites(range(len(model.sites))))
        exact = self._judge(in_float, self._rms)
        if exact > max(_EXACT, 0.02 * self._judge(self._comparison.values, self._rms)):
            return self._diagnose_float_model(model, before, exact)
        floor = self._judge(in_float)
        del in_float
        if floor > goal.within:
            reason = words.goal_out_of_reach(goal.name, floor, goal.within)
            return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
        self.runs.start_search()
        if isinstance(saturated := self._answer_by_saturation(model, before), Found):
            return saturated
        try:
            plain = self._run(case.model.proto, plain=True)
            judge = self._judge(plain)
        except BackendError:
            judge = inf  # The backend cannot run the model without its rewrites.
        if judge <= max(goal.within, reduce_metric(before)) and self._is_closer(
            plain, self._comparison.values
        ):
            # Some rewrites are correct only for matching parameters, so check the parameters first.
            repair = find_repair(case, self.runs, model, self._losses(model), before)
            if repair is not None and repair.after <= goal.within:
                return self._result_of_repair(model, repair)
            why = words.rewrites_lose(goal.name, judge, before, goal.within)
            with case.record_step(titles.WITHOUT_REWRITES) as notes:
                notes.append(why)
            return Unexplained(why, ends=True)  # A backend is at fault.
        return self._result(model, before)

    def _answer_without_search(self, before: float) -> StepOutcome:
        """Return the result if the model reaches the goal, or the search does not fit into memory;
        else a skip.
        """
        goal = self._goal
        if before <= goal.within:
            reason = words.goal_reached(goal.name, before, goal.within)
            return Found(DiagnosisResult(AGREE, reason=reason), self._case)
        if (missing := missing_memory(self._case)) is None:
            return Skip("the search can begin")
        return answer_by_weights(self._case, self._comparison.pair, self.runs, before, missing)

    def _diagnose_float_model(
        self, model: QuantizedModel, before: float, exact: float
    ) -> StepOutcome:
        """Return the diagnosis of the floating-point model if it also differs from its reference;
        inconclusive if the difference is within its precision, but not within the target.
        """
        pair = self._comparison.pair
        with self._case.record_step(titles.WITHOUT_QUANTIZATION) as notes:
            notes.append(words.differs_without_quantization(exact))
        plain = self._case.with_model(open_model(model.float_at_sites(range(len(model.sites)))))
        besides = pair_models(plain, pair.reference, pair.path, pair.arbiter, pair.diagnose)
        outcome = pair.diagnose(plain, besides, self._feeds)
        if not isinstance(outcome, Found) or outcome.result.verdict != AGREE:
            return outcome
        value = words.goal_missed(self._goal.name, before, self._goal.within)
        reason = join_statements(value, words.reference_may_be_older(exact))
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), self._case)

    def _result(self, model: QuantizedModel, before: float) -> StepOutcome:
        """Search for the fewest sites to keep in float, and return the outcome with its culprits
        and the saved model.
        """
        case, goal = self._case, self._goal
        losses = self._losses(model)
        repair = find_repair(case, self.runs, model, losses, before)
        culprits: list[Culprit] = []
        if repair is not None:
            if repair.after <= goal.within:
                return self._result_of_repair(model, repair)
            culprits = wrong_parameters(model, repair, goal)
            site_loss = {model.sites[number].name: loss for number, loss in losses.items()}
            model, before = repair.model, repair.after
            losses = {
                number: site_loss[site.name]
                for number, site in enumerate(model.sites)
                if site.name in site_loss
            }
            proto = model.float_at_sites(())
            saturated = self._explain_by_saturation(model, proto, self._run(proto), before)
            if isinstance(saturated, Found):
                every = [*culprits, *saturated.result.culprits]
                return self._save_model(DiagnosisResult(FAULT, every), model)
        switches = self._switches(model)
        rules = rules_of(model.nodes, model.sites, model.producer)
        powers = self._site_powers(model, rules, switches, losses)
        search, after = self._search_fewest(model, rules, switches, powers, before)
        notes = words.search_notes(search, len(rules.candidates))
        count = len(rules.candidates)
        is_all = search.kept is not None and len(search.kept) == count > 2
        if search.kept is None or is_all or len(search.kept) > max(_FEW, count // 2):
            return Found(
                self._diffuse_result(model, search, losses, switches, before, culprits), case
            )
        kept_names = list(search.kept)
        cost = words.metric_with_float_nodes(
            goal.name, before, after, kept_names, len(rules.candidates), goal.within
        )
        facts = [
            cost,
            words.size_of_search(search.runs, search.proven, len(kept_names), search.is_cut_short),
        ]
        if not kept_names:
            result = DiagnosisResult(FAULT, culprits, reason=notes)
            return self._save_model(result, model)
        off = rules.float_sites(kept_names)
        lost_losses = {number: losses[number].loss for number in off if number in losses}
        for number in sorted(lost_losses, key=lambda index: -lost_losses[index])[:2]:
            site = model.sites[number]
            facts.append(words.site_loss(site.name, site.kind, site.format, losses[number]))
        for number in lost_losses:
            shared = losses[number].shared
            if shared is not None and shared[0] > max(_SHARED, _SHARED_RATIO * shared[1]):
                facts.append(words.shared_scale(model.sites[number].name, *shared))
        is_full = halves_another_range(model.producer, model.nodes, model.sites, kept_names)
        excluded = excluded_names(model.nodes, kept_names)
        parts = nodes_by_quantizer(model.producer, model.nodes, model.sites, kept_names)
        line = " and ".join(
            exclusion(tool, excluded_names(model.nodes, names), keeps_full_range=is_full)
            for tool, names in parts.items()
        )
        is_unnamed = has_unnamed(model.nodes, kept_names)
        reference = self._reference_to_quantize(model, is_unnamed=is_unnamed)
        again = RepeatedQuantization(None, words.SEVERAL_QUANTIZERS)
        if [*parts] == [model.producer]:
            again = self._quantize_again(model, reference, excluded, before, is_full=is_full)
        ops = {node.name: node.op for node in model.nodes}
        op = ops.get(kept_names[-1], "")
        note = words.keep_in_float(
            kept_names,
            line,
            is_known=bool(model.producer),
            is_unnamed=is_unnamed,
            again=again.value,
            why=again.reason,
            added=again.added,
            within=goal.within,
            is_saved=goal.is_settled,
        )
        remedy = Remedy(None, True, note)
        culprit = Culprit(kept_names, None, MODEL, "quantization", None, facts, remedy, op)
        result = DiagnosisResult(FAULT, [*culprits, culprit], reason=notes)
        return self._save_model(result, model, off)

    def _result_of_repair(self, model: QuantizedModel, repair: Repair) -> StepOutcome:
        """Return the result if only incorrect parameters are at fault."""
        result = DiagnosisResult(FAULT, wrong_parameters(model, repair, self._goal))
        return self._save_model(result, repair.model)

    def _is_closer(self, values: Sequence[Values], before: Sequence[Values]) -> bool:
        """Return whether outputs are much closer to the reference than `before`,
        regardless of the target."""
        return self._judge(values, self._rms) <= reduce_metric(
            self._judge(before, self._rms), _CLOSER
        )

    def _answer_by_saturation(self, model: QuantizedModel, before: float) -> StepOutcome:
        """Return the result that products saturate, or that a wrong parameter is why;
        else a skip."""
        proto, values = self._case.model.proto, self._comparison.values
        saturated = self._explain_by_saturation(model, proto, values, before)
        if isinstance(saturated, Found):
            repair = find_repair(self._case, self.runs, model, self._losses(model), before)
            if repair is not None and repair.after <= self._goal.within:
                return self._result_of_repair(model, repair)
        return saturated

    def _explain_by_saturation(
        self, model: QuantizedModel, proto: Any, inexact: Sequence[Values], before: float
    ) -> StepOutcome:
        """Return the result that 8-bit products saturate on this CPU;
        a skip if exact products are as inaccurate.

        Args:
            model: the sites of the model.
            proto: the model.
            inexact: its outputs.
            before: the metric of these.
        """
        exact = getattr(self._party, "with_exact_products", lambda: None)()
        if exact is None or not any(site.kind in ("weight", "operator") for site in model.sites):
            return Skip("the backend has no exact products")
        try:
            compute = exact.load(proto)
            values: list[Values] = [compute(feed) for feed in self._feeds]
        except BackendError:
            # ONNX Runtime 1.32 rejects exact products for some models.
            return Skip("the backend refuses exact products")
        if are_equal(values, inexact):
            return Skip("products are exact, as on every CPU with VNNI")
        after = self._judge(values)
        is_closer = self._is_closer(values, inexact)
        if after > max(self._goal.within, reduce_metric(before)) or not is_closer:
            return Skip("exact products are as inaccurate")
        weights = {site.name for site in model.sites if site.kind == "weight"}
        products = {site.name for site in model.sites if site.kind == "operator"}
        computing = [
            node.name
            for node in model.nodes
            if not (weights.isdisjoint(node.reads) and products.isdisjoint(node.makes))
        ]
        nodes = self._most_saturating_node(model, exact)
        codes = find_code_tensors(proto)
        if codes.tensors and not nodes:
            worst = max(
                CodeSearch(self._case, codes, exact, self._feeds[0]).compare(self._party),
                key=lambda difference: difference.steps,
                default=None,
            )
            if worst is not None:
                nodes = [nearest_before(worst.tensor.node, model.nodes, computing)]
        if not nodes:
            nodes = computing[:1]
        fact = words.products_saturate(self._goal.name, before, after)
        remedy = Remedy(None, True, words.AVOID_SATURATION)
        ops = [node.op for node in model.nodes if node.name in nodes]
        culprit = Culprit(
            nodes, None, self._party.name, "saturation", None, [fact], remedy, *ops[:1]
        )
        return Found(DiagnosisResult(FAULT, [culprit]), self._case)

    def _most_saturating_node(self, model: QuantizedModel, exact: Any) -> list[str]:
        """Return the name of the node whose products differ most from exact products.
        The result is empty if not all sites are operators on integers. All other nodes are computed
        in floating point.
        """
        if any(site.kind != "operator" for site in model.sites):
            return []
        every = range(len(model.sites))
        errors: dict[str, float] = {}
        for number in every[:_SATURATING]:
            proto = model.float_at_sites([index for index in every if index != number])
            try:
                compute = exact.load(proto)
                values, expected = self._run(proto), [compute(feed) for feed in self._feeds]
            except BackendError:
                continue
            errors[model.sites[number].name] = RmsRatio()(Outputs(values), Outputs(expected))
        worst = max(errors, key=lambda name: errors[name], default="")
        return [node.name for node in model.nodes if worst and worst in node.makes][:1]

    def _quantize_again(
        self,
        model: QuantizedModel,
        reference: Any,
        excluded: Sequence[str],
        before: float,
        *,
        is_full: bool,
    ) -> RepeatedQuantization:
        """Return the metric after running the quantizer again without some nodes, or why there is
        none."""
        pair = self._comparison.pair
        names, ends = self._renamed_ends(model), pair.renamed_ends(self._case)
        feeds = [_with_names(pair.feed_reference(feed), names) for feed in self._feeds]

        def measure(model_proto: Any) -> float:
            """Return the metric of a model with the inputs and outputs of the reference."""
            values = self.runs.run(model_proto, feeds)
            return self._judge([_with_names(outputs, ends) for outputs in values])

        request = Requantization(
            model.producer,
            reference,
            model.float_at_sites(()),
            model.sites,
            feeds,
            [[], excluded],
            [False, is_full],
            _AGAIN if self._goal.seconds is None else max(self.runs.time_left(), _LEAST_AGAIN),
        )
        return measure_again(self._case, request, measure, before)

    def _reference_to_quantize(self, model: QuantizedModel, *, is_unnamed: bool) -> Any:
        """Return the reference with the input and output names of the quantized model.
        If `is_unnamed`, all nodes also get a name."""
        names = self._renamed_ends(model)
        return model.named_reference(names) if is_unnamed or names else model.reference

    def _renamed_ends(self, model: QuantizedModel) -> dict[str, str]:
        """Return the names by which sites have the inputs and outputs of the reference,
        if they have them by the model's own names."""
        own_names = {site.name for site in model.sites}
        ends = self._comparison.pair.renamed_ends(self._case)
        return {name: own_name for name, own_name in ends.items() if name not in own_names}

    def _open_model(self) -> QuantizedModel:
        """Return the quantized model with its reference, in the form that the backend executes."""
        reference, forms = self._comparison.pair.reference.proto, []
        try:
            optimized = self._party.runtime_graph(reference, level="ENABLE_BASIC")
            forms = [] if optimized is None else [optimized]
        except (BackendError, ValueError, TypeError):
            pass
        return open_quantized(self._case.model.proto, [reference, *forms])

    def _site_powers(
        self,
        model: QuantizedModel,
        rules: Rules,
        switches: Switches,
        losses: Mapping[int, SiteLoss],
    ) -> PowerSum:
        """Return the predicted losses of sets of sites."""
        with self._case.record_step(titles.LOSS_BY_SITE) as notes:
            powers, measured, inputs = expect_powers(
                switches,
                model,
                rules,
                losses,
                lambda values: self._judge(values, self._rms),
                _RANKING
                * (self._goal.runs if self._goal.seconds is None else self.runs.time_left()),
                is_in_seconds=self._goal.seconds is not None,
            )
            notes.append(words.sites_measured(measured, inputs, len(self._feeds)))
        return powers

    def _losses(self, model: QuantizedModel) -> dict[int, SiteLoss]:
        """Return the loss of each site, if it can be measured."""
        compute = self._party.load(model.with_activations())
        losses = measure_losses(model.sites, model.source, compute, self._feeds)
        del compute
        release_memory()
        return losses

    def _search_fewest(
        self,
        model: QuantizedModel,
        rules: Rules,
        switches: Switches,
        powers: PowerSum,
        before: float,
    ) -> tuple[Search, float]:
        """Return the fewest nodes to exclude, and the metric that the backend then measures."""
        within = self._goal.within
        checked: dict[tuple[int, ...], float] = {}
        self.runs.ensure_time(_LEAST_SEARCH)  # Regardless of earlier slow runs.
        every = range(len(rules.sites))

        def measure(on: Collection[int]) -> float:
            """Return the metric with some sites in quantized form."""
            value = self._judge(switches.run(on))
            if len(on) == len(every) and value <= within:
                # With all sites quantized, this is the model that the backend already computed.
                return before
            # Switches only approximate the mixed model. If the value is near the target, measure
            # the mixed model in the backend.
            is_near = value <= _NEARLY * within and len(on) < len(every)
            if is_near and len(checked) < _CHECKED:
                off = tuple(sorted(set(every) - set(on)))
                try:
                    value = self._judge(self._run(model.float_at_sites(off)))
                except BackendError:
                    value = inf  # A mixed model that the backend rejects is not an answer.
                checked[off] = value
            return value

        with self._case.record_step(titles.FEWEST_IN_FLOAT) as notes:
            sets_left = max(_LEAST_RUNS, self._goal.runs - int(switches.runs))
            if self._goal.seconds is not None:
                sets_left = _MOST_SETS  # The time limit was reached.
            search = SetSearch(
                rules, measure, powers, within, sets_left, lambda: self.runs.time_left() <= 0
            ).result()
            after = search.value
            if search.kept:
                off = tuple(rules.float_sites(search.kept))
                if off not in checked:
                    checked[off] = self._judge(self._run(model.float_at_sites(off)))
                after = checked[off]
            if after > within:
                search = evolve(search, kept=None)
            notes.append(words.search_result(search, len(rules.candidates), after))
        return search, after

    def _switches(self, model: QuantizedModel) -> Switches:
        """Return the model with switches, in the form that the backend computes:
        some sites quantize floating-point weights again."""
        requantizes = bool(model.requantizable_weights) and self._requantizes(model)
        return Switches(self._party, model, self._feeds, requantizes=requantizes)

    def _requantizes(self, model: QuantizedModel) -> bool:
        """Return whether the backend quantizes weights again that are in floating point:
        whether its outputs are closer to those of such weights without rewrites."""
        # Make biases float as well: ONNX Runtime does not quantize a float weight again if its bias
        # is quantized.
        biases = [number for number, site in enumerate(model.sites) if site.kind == "bias"]
        off = [*model.requantizable_weights, *biases]
        outputs = Outputs(self._run(model.float_at_sites(off)))
        # Compare outputs with outputs, because different errors can have equal metrics.
        exact_value, again_value = (
            RmsRatio()(
                Outputs(self._run(model.float_at_sites(off, requantizes=requantizes), plain=True)),
                outputs,
            )
            for requantizes in (False, True)
        )
        return again_value < exact_value

    def _diffuse_result(
        self,
        model: QuantizedModel,
        search: Search,
        losses: Mapping[int, SiteLoss],
        switches: Switches,
        before: float,
        culprits: list[Culprit],
    ) -> DiagnosisResult:
        """Return the result that many nodes each lose a little accuracy, with possible remedies."""
        curve = curve_at(search, (1, 2, 4, 8))
        tried = self._try_alternatives(model, losses)
        kinds = {site.kind for site in model.sites}
        if {"activation", "weight"} <= kinds and self.runs.time_left() > 0:
            weights = [n for n, site in enumerate(model.sites) if site.kind in ("weight", "bias")]
            tried[words.FLOAT] = self._judge(switches.run(weights))
        reason = words.diffuse(self._goal.name, before, self._goal.within, curve, tried, search)
        return DiagnosisResult(INCONCLUSIVE, culprits, reason=reason)

    def _try_alternatives(
        self, model: QuantizedModel, losses: Mapping[int, SiteLoss]
    ) -> dict[str, float]:
        """Return the metric of the model for each alternative way of quantization."""
        values: dict[str, float] = {}
        for name, schemes in alternatives(model.sites, losses).items():
            if self.runs.time_left() <= 0:
                break
            try:
                values[name] = self._judge(self._run(model.proto_with_schemes(schemes)))
            except (BackendError, ModelError):
                continue  # Not every operator supports 16 bits.
        return values

    def _save_model(
        self, result: DiagnosisResult, model: QuantizedModel, off: Collection[int] = ()
    ) -> Found:
        """Return the answer; save the model that reaches the goal, with some sites in floating
        point, if requested."""
        return self.runs.save(Found(result, self._case), lambda: model.float_at_sites(off))


def _with_names(values: Values, names: Mapping[str, str]) -> dict[str, Any]:
    """Return values, some of them under other names."""
    return {names.get(name, name): value for name, value in values.items()}
