"""What a worker says of itself."""
