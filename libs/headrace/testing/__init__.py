"""Help for tests of Headrace and of what is built on it. May not import services."""
