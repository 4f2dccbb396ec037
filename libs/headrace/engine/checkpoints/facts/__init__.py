"""Facts about a model that its computation depends on. Plain data and numpy."""
