"""Values, rules and arithmetic. Nothing here knows a backend, a file or a terminal."""
