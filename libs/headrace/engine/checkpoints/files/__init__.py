"""Files of a checkpoint that are read before anything else."""
