"""Preset folders of KerasHub's families, small and random, with vocabularies of the toy captions."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras_hub  # type: ignore[import-untyped]
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.train.conftest import NAMES, toy_captions
from tests.train.picture_dataset import WORDS

TEXTS = [
    *(box for _, boxes in toy_captions(60) for box in boxes),
    *(word for boxes in WORDS.values() for words in boxes for word in words),
    *(f"Meme: {name}" for name in NAMES.values()),
]
SIDE = 16
_SHAPE: Mapping[str, Any] = {
    "num_layers": 2, "num_query_heads": 4, "num_key_value_heads": 2, "hidden_dim": 32, "intermediate_dim": 64,
}  # fmt: skip


def byte_pairs(*special: str) -> dict[str, Any]:
    """A byte-level vocabulary and its merges, as KerasHub's tokenizers take them."""
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    learned.train_from_iterator(TEXTS, trainer)
    found = json.loads(learned.to_str())["model"]
    return {"vocabulary": found["vocab"], "merges": [" ".join(pair) for pair in found["merges"]]}


def pieces(*, prefix: bool = False) -> bytes:
    """A SentencePiece vocabulary as Gemma's: line breaks are tokens, unknown characters are bytes.

    prefix: every text begins with a space, as in Llama 2 and Mistral.
    """
    stream = io.BytesIO()
    begin, end = ("<s>", "</s>") if prefix else ("<bos>", "<eos>")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=stream, model_type="bpe", vocab_size=340, byte_fallback=True,
        normalization_rule_name="identity", add_dummy_prefix=prefix, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
        pad_piece="<pad>", eos_piece=end, bos_piece=begin, unk_piece="<unk>", hard_vocab_limit=False,
        user_defined_symbols=["\n", "<start_of_image>", "<img>", "<end_of_image>"], minloglevel=2,
    )  # fmt: skip
    return stream.getvalue()


def gpt2() -> Any:
    tokenizer = keras_hub.models.GPT2Tokenizer(**byte_pairs("<|endoftext|>"))
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=tokenizer.vocabulary_size(), num_layers=2, num_heads=4, hidden_dim=32, intermediate_dim=64,
        dropout=0.0, max_sequence_length=48,
    )  # fmt: skip
    return keras_hub.models.GPT2CausalLM(backbone, keras_hub.models.GPT2CausalLMPreprocessor(tokenizer))


def llama3() -> Any:
    headers = ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>")
    tokenizer = keras_hub.models.Llama3Tokenizer(**byte_pairs(*headers))
    backbone = keras_hub.models.Llama3Backbone(vocabulary_size=tokenizer.vocabulary_size(), **_SHAPE)
    return keras_hub.models.Llama3CausalLM(backbone, keras_hub.models.Llama3CausalLMPreprocessor(tokenizer))


def qwen3() -> Any:
    tokenizer = keras_hub.models.Qwen3Tokenizer(**byte_pairs("<|endoftext|>", "<|im_end|>"))
    backbone = keras_hub.models.Qwen3Backbone(vocabulary_size=tokenizer.vocabulary_size(), head_dim=8, **_SHAPE)
    return keras_hub.models.Qwen3CausalLM(backbone, keras_hub.models.Qwen3CausalLMPreprocessor(tokenizer))


def mistral() -> Any:
    tokenizer = keras_hub.models.MistralTokenizer(proto=pieces(prefix=True))
    backbone = keras_hub.models.MistralBackbone(
        vocabulary_size=tokenizer.vocabulary_size(), sliding_window=32, **_SHAPE
    )
    return keras_hub.models.MistralCausalLM(backbone, keras_hub.models.MistralCausalLMPreprocessor(tokenizer))


def gemma3(*, sees: bool = False) -> Any:
    tokenizer = keras_hub.models.Gemma3Tokenizer(proto=pieces(), has_vision_tokens=sees)
    encoder = converter = None
    if sees:
        encoder = keras_hub.models.Gemma3VisionEncoder(
            image_size=SIDE, patch_size=4, num_heads=2, hidden_dim=8, num_layers=1, intermediate_dim=16, output_dim=32,
            pool_size=2,
        )  # fmt: skip
        converter = keras_hub.layers.Gemma3ImageConverter(image_size=(SIDE, SIDE), scale=1 / 255)
    backbone = keras_hub.models.Gemma3Backbone(
        vocabulary_size=tokenizer.vocabulary_size(), image_size=SIDE, head_dim=8, vision_encoder=encoder,
        use_sliding_window_attention=True, sliding_window_size=8, **_SHAPE,
    )  # fmt: skip
    preprocessor = keras_hub.models.Gemma3CausalLMPreprocessor(tokenizer, converter, num_vision_tokens_per_image=4)
    return keras_hub.models.Gemma3CausalLM(preprocessor=preprocessor, backbone=backbone)


def pali_gemma() -> Any:
    tokenizer = keras_hub.models.PaliGemmaTokenizer(proto=pieces())
    backbone = keras_hub.models.PaliGemmaBackbone(
        vocabulary_size=tokenizer.vocabulary_size(), image_size=SIDE, head_dim=8, vit_patch_size=4, vit_num_heads=2,
        vit_hidden_dim=8, vit_num_layers=1, vit_intermediate_dim=16, **_SHAPE,
    )  # fmt: skip
    converter = keras_hub.layers.PaliGemmaImageConverter(image_size=(SIDE, SIDE), scale=1 / 255)
    preprocessor = keras_hub.models.PaliGemmaCausalLMPreprocessor(tokenizer, converter)
    return keras_hub.models.PaliGemmaCausalLM(preprocessor, backbone)


FAMILIES: Mapping[str, Callable[[], Any]] = MappingProxyType({
    "gpt2": gpt2, "llama3": llama3, "qwen3": qwen3, "mistral": mistral, "gemma3": gemma3, "pali_gemma": pali_gemma,
    "gemma3_sees": lambda: gemma3(sees=True),
})  # fmt: skip


def write_preset(folder: Path, family: str) -> Path:
    """Write the preset into a folder of its name and return that."""
    FAMILIES[family]().save_to_preset(str(folder / family))
    return folder / family
