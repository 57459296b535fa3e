"""What is correct: one file for each oracle, with the list of its steps."""
