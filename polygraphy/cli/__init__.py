"""The command line: options as data, commands, help, exit codes."""
