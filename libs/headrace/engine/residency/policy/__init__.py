"""Policy of the model manager: events and the time go in, moves come out, without threads, clock or I/O."""
