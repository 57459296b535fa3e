"""Find out why the outputs of a model are wrong."""

from typing import TYPE_CHECKING

from polygraphy.mod.deferred import defer_names

if TYPE_CHECKING:
    from polygraphy.application.diagnose.diagnosing import diagnose
    from polygraphy.application.diagnose.half_diagnosis import diagnose_half

__all__ = ["diagnose", "diagnose_half"]

__getattr__ = defer_names(
    globals(),
    {
        "diagnose": "polygraphy.application.diagnose.diagnosing",
        "diagnose_half": "polygraphy.application.diagnose.half_diagnosis",
    },
)
