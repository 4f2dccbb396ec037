"""Families of decoders with blocks of their own, which torch computes one operation after the other."""
