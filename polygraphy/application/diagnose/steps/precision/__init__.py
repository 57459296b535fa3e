"""Steps that ask whether a lower precision explains a difference."""
