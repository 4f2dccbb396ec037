"""The Llama family of decoders (Touvron et al., 2023): pre-norm, rotary positions, grouped queries, SwiGLU.

Its checkpoints include Llama 2 and 3, TinyLlama, and the distillations of DeepSeek-R1 into Llama.
"""

from headrace.engine.checkpoints.families.decoders.decoder_family import Family

LLAMA = Family("LlamaForCausalLM")
