"""The facts about layers that keep a state."""
