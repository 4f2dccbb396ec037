"""Reference of all settings and of `headrace up`'s flags, as a page of the guide."""
