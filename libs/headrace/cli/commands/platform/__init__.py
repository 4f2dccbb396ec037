"""Commands about a platform that runs: its status, its stop, and its start with the same arguments."""
