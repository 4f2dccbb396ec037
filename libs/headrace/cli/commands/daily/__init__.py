"""Commands about models and logs, and about what a platform does now."""
