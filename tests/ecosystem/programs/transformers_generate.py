"""Text from small models of transformers: greedy search, beams, and processors of the logits give the same tokens."""

import torch
from exchange import fill, record, save, whole
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

WORDS = 60
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
models = {
    "gpt2": GPT2LMHeadModel(
        GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=WORDS, n_positions=64, **SPECIAL)
    ),
    "llama": LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            num_key_value_heads=2, max_position_embeddings=64, **SPECIAL,
        )
    ),
    "t5": T5ForConditionalGeneration(
        T5Config(
            vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0,
            eos_token_id=2, pad_token_id=0,
        )
    ),
}  # fmt: skip
prompt = 3 + whole("prompt", WORDS - 3, 2, 6)
mask = torch.ones_like(prompt)
mask[1, :2] = 0  # padded on the left

WAYS = {
    "greedy": {},
    "without cache": {"use_cache": False},
    "beams": {"num_beams": 3, "length_penalty": 0.8},
    "processed": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 5},
}
for name, model in models.items():
    fill(model).eval()
    for way, settings in WAYS.items():
        tokens = model.generate(
            prompt, attention_mask=mask, max_new_tokens=12, do_sample=False, **settings
        )
        record(f"{name} {way}", tokens)
    scored = model.generate(
        prompt, attention_mask=mask, max_new_tokens=4, do_sample=False,
        output_scores=True, return_dict_in_generate=True,
    )  # fmt: skip
    record(f"{name} scores", torch.stack(scored.scores))
    torch.manual_seed(0)
    sampled = model.generate(
        prompt,
        attention_mask=mask,
        max_new_tokens=8,
        do_sample=True,
        top_k=20,
        top_p=0.9,
        temperature=0.8,
    )
    assert sampled.shape[0] == 2 and int(sampled.max()) < WORDS
save()
