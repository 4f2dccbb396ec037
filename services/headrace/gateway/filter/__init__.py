"""Filters: what must not be said, to a model or by one, is masked or ends the answer."""
