"""Job of a request: the texts to generate or embed, checked against its model."""
