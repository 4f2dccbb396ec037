"""Low-rank adapters (LoRA; Hu et al., 2021): read from PEFT's files, chosen per request, batched together."""
