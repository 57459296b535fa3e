"""The target of a quantized model."""

from __future__ import annotations

from attrs import frozen

from polygraphy.domain.quantization.metrics import Metric


@frozen
class QuantizedGoal:
    """The target for a quantized model, and the budget of the search.

    Attributes:
        within: the largest value of the metric.
        metric: the metric; None for the rms ratio.
        name: the name of the metric, in words.
        save: the path for a model that reaches it; None to save none.
        seconds: the time limit of the search; None for a number of runs.
        runs: the number of runs of the model with switches that the search may use without
            `seconds`.
        is_asked: whether the user set the target, so that a model can be saved.
    """

    within: float
    metric: Metric | None = None
    name: str = "rms ratio"
    save: str | None = None
    seconds: float | None = None
    runs: int = 200
    is_asked: bool = True

    @property
    def is_settled(self) -> bool:
        """Return whether it is clear that a model is saved, or that none can be, so that saving
        need not be suggested."""
        return self.save is not None or not self.is_asked
