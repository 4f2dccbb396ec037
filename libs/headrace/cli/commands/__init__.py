"""The subcommands of `headrace`."""
