"""What an oracle compared, for its steps."""
