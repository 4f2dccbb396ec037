"""Names of models, and changes of what is served."""
