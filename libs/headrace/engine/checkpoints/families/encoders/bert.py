"""BERT (Devlin et al., 2018), of which most sentence encoders are: MiniLM, BGE, E5, GTE, …"""

from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily

BERT = EncoderFamily("Bert")
