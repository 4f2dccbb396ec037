"""The worker service: one model on one accelerator. Tokens go straight to gateways, facts to NATS."""
