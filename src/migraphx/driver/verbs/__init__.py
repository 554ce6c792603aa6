"""One file a verb: its docstring is the help, `add_arguments` its options, `run` its answer."""
