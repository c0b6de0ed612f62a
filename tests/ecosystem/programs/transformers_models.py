"""Five models of transformers, made small from their configurations: loss, outputs and all gradients of one step."""

import torch
from exchange import fill, record, record_gradients, save, tensor, whole
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
WORDS = 60
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ids, labels = whole("ids", WORDS, 2, 12), whole("labels", WORDS, 2, 12)
padded = torch.ones(2, 12, dtype=torch.int64)
padded[1, 9:] = 0
text = {"input_ids": ids, "attention_mask": padded}


def gpt2():
    config = GPT2Config(
        n_layer=2, n_head=4, n_embd=32, vocab_size=WORDS, n_positions=32, bos_token_id=1, eos_token_id=2,
        attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0,
    )  # fmt: skip
    return GPT2LMHeadModel(config), {**text, "labels": ids}


def bert():
    config = BertConfig(vocab_size=WORDS, max_position_embeddings=32, **SMALL, **NO_DROPOUT)
    return BertForMaskedLM(config), {**text, "labels": labels}


def llama():
    config = LlamaConfig(
        vocab_size=WORDS,
        max_position_embeddings=32,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        **SMALL,
    )
    return LlamaForCausalLM(config), {**text, "labels": ids}


def t5():
    config = T5Config(
        vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0,
    )  # fmt: skip
    return T5ForConditionalGeneration(config), {**text, "labels": labels}


def vit():
    config = ViTConfig(image_size=16, patch_size=4, num_labels=5, **SMALL, **NO_DROPOUT)
    images = {"pixel_values": tensor("images", 3, 3, 16, 16)}
    return ViTForImageClassification(config), {**images, "labels": whole("classes", 5, 3)}


for make in (gpt2, bert, llama, t5, vit):
    model, inputs = make()
    fill(model).train()
    outputs = model(**inputs, output_hidden_states=True)
    outputs.loss.backward()
    record(f"{make.__name__} loss", outputs.loss)
    record(f"{make.__name__} logits", outputs.logits)
    states = outputs.get("hidden_states") or outputs.decoder_hidden_states
    for i, state in enumerate(states):
        record(f"{make.__name__} hidden {i}", state)
    record_gradients(make.__name__, model)
save()
