"""Ranks that become one group: when each has loaded, on which device, and by which library they exchange tensors."""
