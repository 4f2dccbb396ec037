"""Other gateways of the platform, and what they know."""
