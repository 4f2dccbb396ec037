"""Files and batches on disk, in a folder that all gateways share."""
