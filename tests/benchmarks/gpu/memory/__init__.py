"""Memory that models take on cards, computed without weights and without a card."""
