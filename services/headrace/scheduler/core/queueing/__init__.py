"""Requests that wait: their order, their shares, their predicted wait."""
