"""Plans a platform: which processes it has, where they run, and what each is given. A launcher carries the plan out."""
