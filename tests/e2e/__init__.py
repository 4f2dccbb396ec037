"""A package, so that the platforms that its tests share are stopped after the last of them."""
