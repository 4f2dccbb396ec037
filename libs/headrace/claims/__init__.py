"""Claims that are commonly made for fast serving, each measured on this machine, or predicted and marked so."""
