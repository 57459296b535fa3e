"""Two runs of a model with states, compared step by step: a few numbers of each step, no arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.rounding import rounding_between
from polygraphy.domain.states.memory import StepFacts
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.naming import list_some
from polygraphy.domain.tensors.precision import is_float

MOST_ROWS = 10


@frozen
class StepRow:
    """The row of one step, or of several consecutive steps.

    Attributes:
        first: the number of the step, from 0.
        last: the last of them.
        start: the position of the first token.
        position: the position that the figures are about: where the tokens differ, else the last.
        passed: whether all outputs match.
        error: the largest absolute error of the judged output; None without one.
        kl: the largest Kullback-Leibler divergence of its probabilities, in nats; None if it
            holds no scores.
        tokens: the most likely token of each run at `position`; None without scores.
        margin: the distance of the two deciding scores, the smaller of both runs.
        is_tie: whether the tokens differ by rounding.
        state: the first state that differs; empty for none.
        output: the first output that differs; empty for none.
    """

    first: int
    last: int
    start: int
    position: int
    passed: bool
    error: float | None = None
    kl: float | None = None
    tokens: tuple[int, int] | None = None
    margin: float | None = None
    is_tie: bool = False
    state: str = ""
    output: str = ""

    @property
    def is_flip(self) -> bool:
        """Whether the runs choose different tokens."""
        return self.tokens is not None and self.tokens[0] != self.tokens[1]


@frozen
class StepsCompared:
    """The comparison of two runs over all steps.

    Attributes:
        parties: the names of the runs, as they are shown.
        judged: the output that is judged; None for none.
        steps: number of steps compared.
        rows: the steps in at most ten rows.
        first_wrong: the first step that failed; None if all passed.
        ties: the steps whose tokens differ by rounding, at most ten.
        differing_states: states that differ while all other outputs agree in all steps, later
            steps that read them included. They do not count.
        last_states: states that differ in the last step alone, while all other outputs agree: no
            step reads them.
    """

    parties: Sequence[str]
    judged: str | None
    steps: int
    rows: Sequence[StepRow]
    first_wrong: StepRow | None = None
    ties: Sequence[StepRow] = ()
    differing_states: Sequence[str] = ()
    last_states: Sequence[str] = ()


def step_row(
    facts: StepFacts,
    outputs: tuple[Mapping[str, Any], Mapping[str, Any]],
    results: Mapping[str, Any],
    dtypes: tuple[str | None, str | None] = (None, None),
) -> StepRow:
    """Return the row of a step in a table: its verdict, errors, and the tokens that both runs
    choose.

    Args:
        facts: the facts that identify the step.
        outputs: the outputs of both runs.
        results: the verdict on each output.
        dtypes: the data types in which the judged output is computed.
    """
    wrong = [name for name, result in results.items() if not result]
    states = [name for name in wrong if name in facts.states]
    names = [name for name in wrong if name not in facts.states]
    describe = partial(
        StepRow,
        first=facts.index,
        last=facts.index,
        start=facts.start,
        passed=not wrong,
        state=next(iter(states), ""),
        output=next(iter(names), ""),
    )
    last = facts.start + facts.length - 1
    left, right = (_array(output.get(facts.judged or "")) for output in outputs)
    if left is None or right is None or left.shape != right.shape or not left.size:
        return describe(position=last)
    a, b = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        error = float(np.max(np.abs(a - b)))
    if not facts.tokens or a.ndim < 2 or a.shape[-1] < 2:
        return describe(position=last, error=error)
    a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    if error == 0:
        at = len(a) - 1
        token = int(a[at].argmax())
        position = facts.start + at % facts.length
        return describe(position=position, error=error, kl=0.0, tokens=(token, token))
    chosen = a.argmax(-1), b.argmax(-1)
    rows = np.flatnonzero(chosen[0] != chosen[1])
    gaps = [_gap(a[row], b[row], chosen[0][row], chosen[1][row]) for row in rows]
    at = int(rows[int(np.argmax(gaps))]) if len(rows) else len(a) - 1
    tokens = int(chosen[0][at]), int(chosen[1][at])
    is_tie = False
    if len(rows):
        verdict = results.get(facts.judged or "")
        passed = bool(verdict) if verdict is not None else False
        is_tie = passed or _is_rounding((left, right), dtypes, error, max(gaps))
    return describe(
        position=facts.start + at % facts.length,
        error=error,
        kl=_divergence(a, b),
        tokens=tokens,
        margin=max(gaps) if gaps else None,
        is_tie=is_tie,
    )


def _array(value: Any) -> Array | None:
    """Return a value as an array of numbers; None if it is not one."""
    if value is None:
        return None
    array = np.asarray(value)
    is_number = array.dtype.kind in "iu" or is_float(array)
    return array if is_number else None


def _gap(a: Array, b: Array, left: int, right: int) -> float:
    """Return the score gap of two tokens, in the run where it is smaller."""
    return float(min(abs(a[left] - a[right]), abs(b[left] - b[right])))


def _divergence(a: Array, b: Array) -> float:
    """Return the largest divergence of any position of two arrays of scores."""
    with np.errstate(all="ignore"):
        p, q = _log_softmax(a), _log_softmax(b)
        value = np.sum(np.exp(q) * (q - p), axis=-1)
    return float(max(0.0, np.max(value))) if np.isfinite(value).all() else float("nan")


def _log_softmax(scores: Array) -> Array:
    """Return the logarithm of the softmax of scores."""
    shifted = scores - scores.max(-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def _is_rounding(
    arrays: tuple[Array, Array], dtypes: tuple[str | None, str | None], error: float, margin: float
) -> bool:
    """Return whether rounding explains the error of an array."""
    rounding = rounding_between(arrays, dtypes)
    if rounding is None:
        return False
    limit = rounding.atol + rounding.rtol * float(np.max(np.abs(arrays[1].astype(np.float64))))
    return bool(error <= limit and margin <= limit)


class StepFigures:
    """Collects a row for each step of two runs."""

    def __init__(self, parties: tuple[str, str]) -> None:
        """Create an empty table for two runs."""
        self.parties = parties
        self.judged: str | None = None
        self._rows: list[StepRow] = []
        # Per state, the index of the first row that differs.
        self._first_wrong: dict[str, int] = {}
        self._has_others = True

    def add(self, facts: StepFacts, row: StepRow, results: Mapping[str, Any]) -> None:
        """Add the figures of a step."""
        self.judged = facts.judged
        self._has_others &= any(name not in facts.states for name in results)
        for name in facts.states:
            if name in results and not results[name]:
                self._first_wrong.setdefault(name, len(self._rows))
        self._rows.append(row)

    @property
    def harmless_states(self) -> list[str]:
        """States that differ although all other outputs agree, in all steps that read them."""
        if not self._has_others or any(row.output for row in self._rows):
            return []
        last = len(self._rows) - 1
        return [name for name, first in self._first_wrong.items() if first < last]

    def comparison(self) -> StepsCompared:
        """Return the comparison over all steps."""
        harmless, rows = self.harmless_states, self._rows
        others_agree = self._has_others and not any(row.output for row in rows)
        unread = (
            [name for name in self._first_wrong if name not in harmless] if others_agree else []
        )
        if harmless:
            rows = [evolve(row, passed=True) for row in rows[:-1]]
            rows.append(evolve(self._rows[-1], passed=not unread))
        return StepsCompared(
            self.parties,
            self.judged,
            len(rows),
            list(_fold_rows(rows)),
            next((row for row in rows if not row.passed), None),
            [row for row in rows if row.is_flip and row.is_tie][:MOST_ROWS],
            harmless,
            unread,
        )


def _fold_rows(rows: Sequence[StepRow]) -> Iterator[StepRow]:
    """Yield at most ten rows of steps: consecutive passing steps merged, the first failing ones,
    and the last.
    """
    groups: list[list[StepRow]] = []
    for row in rows:
        is_like = bool(groups) and row.passed and groups[-1][-1].passed
        is_plain = not row.is_flip and not (groups and groups[-1][-1].is_flip)
        if is_like and is_plain:
            groups[-1].append(row)
        else:
            groups.append([row])
    if len(groups) > MOST_ROWS:
        first = next((at for at, group in enumerate(groups) if not group[0].passed), 0)
        head = groups[max(0, first - 2) : max(0, first - 2) + MOST_ROWS - 2]
        step_rows = [row for group in groups for row in group if row.first > head[-1][-1].first][
            :-1
        ]
        groups = [*head, *([step_rows] if step_rows else []), groups[-1][-1:]]
    yield from (_join_rows(group) for group in groups)


def _join_rows(group: Sequence[StepRow]) -> StepRow:
    """Return one row for a group of steps."""
    if len(group) == 1:
        return group[0]
    errors = [row.error for row in group if row.error is not None]
    kls = [row.kl for row in group if row.kl is not None]
    wrong = [row for row in group if not row.passed]
    return StepRow(
        group[0].first,
        group[-1].last,
        group[0].start,
        group[-1].position,
        passed=not wrong,
        error=max(errors, default=None),
        kl=max(kls, default=None),
        tokens=None,
        state=next((row.state for row in wrong if row.state), ""),
        output=next((row.output for row in wrong if row.output), ""),
    )


def step_table(steps: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns, and the rows, of a table of the steps of two runs, as text.

    Args:
        steps: the document of `StepsCompared`.
    """
    parties = steps["parties"]
    titles = ["step", "position", "error", "KL", *(f"token {party}" for party in parties)]
    rows = [
        [
            _range(row["first"], row["last"]),
            _range(row["start"], row["position"]),
            _figure(row["error"]),
            _figure(row["kl"]),
            *(
                "" if row["tokens"] is None else f"{row['tokens'][at]}"
                for at in range(len(parties))
            ),
            row["state"],
            "passed" if row["passed"] else "failed",
        ]
        for row in steps["rows"]
    ]
    return [*titles, "first different state", "verdict"], rows


def _range(first: int, last: int) -> str:
    """Return a range of steps as text."""
    return f"{first}" if first == last else f"{first} to {last}"


def _figure(value: Any) -> str:
    """Return a number with two digits; another value as text."""
    return f"{value:.2g}" if isinstance(value, (int, float)) else str(value or "")


def steps_in_words(steps: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about the steps of two runs, from the `StepsCompared` in a document."""
    rows = steps["rows"]
    first_party, second_party = steps["parties"]
    wrong = steps["first_wrong"]
    if wrong is None:
        errors = [row["error"] for row in rows if isinstance(row["error"], float)]
        kls = [row["kl"] for row in rows if isinstance(row["kl"], float)]
        figures = [f"largest error {max(errors):.2g}"] if errors else []
        figures += [f"KL {max(kls):.2g}"] if kls else []
        end = f", {', '.join(figures)}" if figures else ""
        count = steps["steps"]
        agree = "The step agrees" if count == 1 else f"All {count} steps agree"
        yield (
            f"{agree} (positions 0 to {rows[-1]['position']}{end})."
            if rows
            else "No step was compared."
        )
    else:
        text = wrong["state"] or wrong["output"]
        text = f", beginning with {text!r}" if text else ""
        where = f"position {wrong['position']}{text}"
        yield f"Step {wrong['first']} is the first that differs ({where})."
    for row in steps["ties"]:
        first, second = row["tokens"]
        yield (
            f"Near tie in step {row['first']}, position {row['position']}: token {first} in"
            f" {first_party}, {second} in {second_party}; margin {row['margin']:.2g}, error"
            f" {row['error']:.2g}, both within rounding."
        )
    if steps["differing_states"]:
        names = list_some(steps["differing_states"])
        yield f"Not counted, because all outputs of later steps agree: state {names}."
    if steps.get("last_states"):
        names, extra = list_some(steps["last_states"]), steps["steps"] + 1
        yield (
            f"No step reads {names} from the last step. To see whether they matter, use --steps"
            f" {extra}."
        )
