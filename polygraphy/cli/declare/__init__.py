"""Declarations of options, commands and backends, and kinds of values.

Uses no other room of the command line.
"""
