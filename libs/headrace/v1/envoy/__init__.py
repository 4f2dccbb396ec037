"""Generated from protos/headrace/v1/envoy. Do not edit."""
