"""How every diagnosis ends: it is shown, recorded, and answered."""

from __future__ import annotations

from polygraphy.domain.diagnosis.culprit import INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.reporting import Findings


def concluded(result: DiagnosisResult) -> bool:
    """Pass a result on to the console and to the report of the program; return whether nothing is
    wrong.

    Raises:
        InconclusiveError: it could not be found out.
    """
    resolve(DiagnosisReports).concluded(result)
    findings = resolve(Findings)
    findings.found("attempts", {"attempts": result.attempts})
    findings.conclude(result.verdict, result.facts(), result.reason)
    if result.verdict == INCONCLUSIVE:
        raise InconclusiveError(result.reason)
    return bool(result)
