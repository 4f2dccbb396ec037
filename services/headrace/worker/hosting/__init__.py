"""Models behind one port, each a separate worker to all others."""
