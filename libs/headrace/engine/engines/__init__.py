"""Engines that make text or embeddings, and a simulated one."""
