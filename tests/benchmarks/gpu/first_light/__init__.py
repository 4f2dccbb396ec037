"""The first minutes at a card: short steps, each in a process of its own, correctness before speed."""
