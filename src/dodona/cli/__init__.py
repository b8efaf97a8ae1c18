"""The command line: one file a command. Needs the `cli` extra."""
