"""Job of a request: what is to be generated or embedded, checked against its model."""
