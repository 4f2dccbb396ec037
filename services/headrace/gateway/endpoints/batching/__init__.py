"""The endpoints of files and batches."""
