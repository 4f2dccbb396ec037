"""Models behind one port, each a worker of its own to all others."""
