"""What an option, a command and a backend are, and kinds of values.

Uses no other room of the command line.
"""
