"""One module for each kind of endpoint."""
