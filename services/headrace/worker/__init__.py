"""The worker service: runs one model on one accelerator. Tokens go straight to gateways, news to NATS."""
