"""KerasHub's GPT-2 fine-tuned on captions: it writes them token by token, and goes on with texts that were read."""
