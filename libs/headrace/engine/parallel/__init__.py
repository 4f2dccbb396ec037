"""One model on several processes: tensor and pipeline parallelism over torch.distributed."""
