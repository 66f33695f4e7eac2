"""Any causal language model of KerasHub, fine-tuned on captions."""
