"""DistilBERT (Sanh et al., 2019): BERT with half as many layers and without segments."""

from headrace.engine.checkpoints.facts.encoder_config import EncoderNames
from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily

DISTILBERT = EncoderFamily(
    "DistilBert",
    keys={
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_act": "activation",
    },
    defaults={"type_vocab_size": 0, "layer_norm_eps": 1e-12},
    names=EncoderNames(
        root="distilbert",
        layer="transformer.layer",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        attention_output="attention.out_lin",
        attention_norm="sa_layer_norm",
        up="ffn.lin1",
        down="ffn.lin2",
        output_norm="output_layer_norm",
    ),
    scoring=ScoringModules(dense="pre_classifier", function="relu", output="classifier"),
)
