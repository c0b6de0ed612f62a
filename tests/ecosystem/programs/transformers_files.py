"""save_pretrained and from_pretrained, through safetensors; torch.save of a state dict; half precision files."""

import tempfile
from pathlib import Path

import torch
from exchange import fill, record, record_gradients, record_weights, save, whole
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
)  # fmt: skip
ids = whole("ids", 60, 2, 8)
model = fill(LlamaForCausalLM(config))
expected = model(input_ids=ids, labels=ids)

with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    assert (Path(folder) / "model.safetensors").exists()
    again = LlamaForCausalLM.from_pretrained(folder)
    assert again.lm_head.weight is again.model.embed_tokens.weight  # still tied
    assert not again.training
    again.train()
    outputs = again(input_ids=ids, labels=ids)
    assert torch.equal(outputs.logits, expected.logits)
    outputs.loss.backward()
    record("again loss", outputs.loss)
    record_gradients("again", again)
    record_weights("again", again)

    auto = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    assert type(auto) is LlamaForCausalLM and auto.dtype is torch.bfloat16
    record("half logits", auto(input_ids=ids).logits.float())

    sharded = Path(folder) / "sharded"
    model.save_pretrained(sharded, max_shard_size="20KB")
    record("shards", len(list(sharded.glob("model-*.safetensors"))))
    from_shards = LlamaForCausalLM.from_pretrained(sharded)
    assert torch.equal(from_shards(input_ids=ids).logits, expected.logits)

    file = Path(folder) / "own.safetensors"
    save_file({"a": torch.arange(6).reshape(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}, file)
    loaded = load_file(file)
    record("loaded a", loaded["a"])
    assert loaded["b"].dtype is torch.bfloat16
    with safe_open(file, framework="pt") as opened:
        record("slice", opened.get_slice("a")[:, 1:])
        assert sorted(opened.keys()) == ["a", "b"]

    torch.save(model.state_dict(), Path(folder) / "state.pt")
    state = torch.load(Path(folder) / "state.pt", weights_only=True)
    fresh = LlamaForCausalLM(config)
    fresh.load_state_dict(state)
    assert torch.equal(fresh(input_ids=ids).logits, expected.logits)
save()
