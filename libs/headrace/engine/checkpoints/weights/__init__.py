"""The canonical form of matrices from all formats."""
