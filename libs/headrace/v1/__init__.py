"""Generated from protos/headrace/v1. Do not edit."""
