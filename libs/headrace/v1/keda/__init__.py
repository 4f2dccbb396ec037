"""Generated from protos/headrace/v1/keda. Do not edit."""
