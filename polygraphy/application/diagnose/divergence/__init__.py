"""Where a model diverges from a reference whose nodes are not the same."""
