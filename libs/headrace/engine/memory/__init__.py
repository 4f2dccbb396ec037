"""Memory of the machine: free memory, aligned arrays, mapped files."""
