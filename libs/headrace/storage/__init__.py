"""Files that survive a crash whole, and that only their user can read."""
