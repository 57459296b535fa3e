"""The search for a changed node: by tensors of a reference, or by outputs alone."""
