"""Keys of callers, their limits, and the account of what each request used."""
