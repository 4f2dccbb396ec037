"""Numbers of workers that follow the demand."""
