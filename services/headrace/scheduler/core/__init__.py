"""The scheduler's policy as a pure core: events and the time go in, decisions come out, without clock or I/O."""
