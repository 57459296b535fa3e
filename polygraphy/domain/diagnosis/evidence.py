"""What a diagnosis has compared of what was asked, and what may be said of it: one table.

| compared    | differs | may be said                                                          |
|-------------|---------|----------------------------------------------------------------------|
| nothing     |         | inconclusive: give something to compare with                         |
| some of it  | no      | inconclusive: what matches, and what was left out                    |
| all of it   | no      | no fault found                                                       |
| any of it   | yes     | who is at fault; if that is uncertain, inconclusive: who it may be   |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import reasons


@frozen
class Evidence:
    """The record of comparisons that were made, and of those that were not, so that the verdict
    claims no more.

    Attributes:
        against: with what, in words, such as ``saved results``.
        left_out: the requested comparisons that were not made, a sentence without its period each.
        versions: by backend, the other versions that were asked, and the problem with each; empty
            if there was none.
    """

    against: Sequence[str] = ()
    left_out: Sequence[str] = ()
    versions: Mapping[str, Mapping[str, str]] = field(factory=dict)

    def with_comparison(self, name: str, left_out: Sequence[str] = ()) -> Evidence:
        """Return the evidence after a comparison with an oracle, which left out some outputs."""
        return evolve(self.without(*left_out), against=(*self.against, name))

    def without(self, *left_out: str) -> Evidence:
        """Return the evidence with additional items that were not compared."""
        return evolve(self, left_out=tuple(dict.fromkeys((*self.left_out, *left_out))))

    def with_party(self, party: str, version: str = "", problem: str = "") -> Evidence:
        """Return the evidence with a version of a backend that was compared, or the problem that
        prevented it.
        """
        own_names = {**self.versions.get(party, {}), **({version: problem} if version else {})}
        return evolve(self, versions={**self.versions, party: own_names})

    def qualify_result(
        self,
        result: DiagnosisResult,
        name_alone: str = "",
        unexplained: str = "",
        contradictions: Sequence[str] = (),
    ) -> DiagnosisResult:
        """Return the result, or "inconclusive" if it finds no fault but not everything was
        compared.

        Args:
            result: the diagnosis.
            name_alone: the only backend that ran, where there is nothing else to compare with.
            unexplained: the reason why a difference is not explained; empty without one.
            contradictions: sentences on what is wrong with the model itself.
        """
        if result.verdict != AGREE:
            return result
        reason = unexplained
        if not reason and not self.against:
            reason = join_statements(*contradictions, reasons.nothing_to_compare(name_alone))
        elif not reason and self.left_out:
            reason = reasons.partly_compared(self.left_out)
        if not reason:
            return result
        return evolve(result, verdict=INCONCLUSIVE, reason=join_statements(reason, result.reason))
