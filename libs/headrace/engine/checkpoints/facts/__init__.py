"""Facts about a model that determine its computation. Plain data and numpy."""
