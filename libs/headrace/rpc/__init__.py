"""gRPC servers and channels with the settings, error mapping, deadlines and traces that every hop needs."""
