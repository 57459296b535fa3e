"""For every flag of every command, words that use it."""
