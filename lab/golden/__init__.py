"""Single nodes with planted faults, diagnosed against all saved tensors of the healthy model."""
