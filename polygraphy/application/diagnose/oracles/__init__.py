"""References of a diagnosis: one file for each oracle, with the list of its steps."""
