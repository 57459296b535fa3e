"""Which tactic TensorRT chose for each layer, and which of them may be bad.

Uses no other room of the domain.
"""
