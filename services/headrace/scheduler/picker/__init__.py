"""Endpoint picker: the scheduler's core behind Envoy's protocol, for pools of servers that others run."""
