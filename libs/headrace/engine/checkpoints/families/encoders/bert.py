"""BERT (Devlin et al., 2018), the base of most sentence encoders: MiniLM, BGE, E5, GTE, …"""

from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily

BERT = EncoderFamily("Bert", scoring=ScoringModules(dense="bert.pooler.dense", output="classifier"))
