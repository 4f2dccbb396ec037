"""Fields of request bodies that need more than a type."""
