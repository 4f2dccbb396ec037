"""gRPC servers and channels with the options, credentials, error mapping and deadlines that every hop needs."""
