"""Why outputs are wrong: what is known of the nodes of a model, and what that says."""
