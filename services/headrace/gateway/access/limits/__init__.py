"""Limits of keys: budgets that all gateways share."""
