"""Identity of the processes of a local platform."""
