"""A step of one small model of each of many families of transformers, in double precision: loss and all gradients."""

import transformers as hf
from exchange import fill, record, record_gradients, save, tensor, torch, whole

WORDS, CLASSES = 60, 3
SIZE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TEXT = {"vocab_size": WORDS, "max_position_embeddings": 40}
GROUPED = {**TEXT, **SIZE, "num_key_value_heads": 2}
LAYERS = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
TWO_SIDES = {**LAYERS, "d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}

ids, labels = whole("ids", WORDS, 2, 12), whole("labels", WORDS, 2, 12)
text = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
image = {"pixel_values": tensor("image", 2, 3, 32, 32), "labels": whole("classes", CLASSES, 2)}

# family -> (name of the model, settings of its configuration, what it is called with)
CAUSAL = {
    "Mistral": {**GROUPED, "sliding_window": 6},
    "Mixtral": {**GROUPED, "num_local_experts": 4},
    "Qwen2": GROUPED,
    "Qwen3": {**GROUPED, "head_dim": 8},
    "Gemma2": {**GROUPED, "head_dim": 8},
    "Phi": {**TEXT, **SIZE},
    "GPTNeoX": {**TEXT, **SIZE, "hidden_dropout": 0.0, "attention_dropout": 0.0},
    "Bloom": {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "Mamba": {"vocab_size": WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
}
MASKED = {
    "Roberta": {**TEXT, **SIZE, **NO_DROPOUT},
    "Albert": {**TEXT, **SIZE, "embedding_size": 16},
    "DebertaV2": {**TEXT, **SIZE, **NO_DROPOUT, "relative_attention": True, "pos_att_type": "p2c|c2p"},
    "DistilBert": {
        **TEXT, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "dropout": 0.0, "attention_dropout": 0.0,
    },
}  # fmt: skip
PATCHES = {**SIZE, "image_size": 32, "patch_size": 8, "num_labels": CLASSES}
IMAGES = {
    "Swin": {
        "image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
        "num_labels": CLASSES, "drop_path_rate": 0.0,
    },
    "ConvNext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "num_labels": CLASSES},
    "DeiT": {**PATCHES, **NO_DROPOUT},
    "Dinov2": {k: v for k, v in PATCHES.items() if k != "intermediate_size"},
}  # fmt: skip
OTHERS = {
    "Bart": (
        "BartForConditionalGeneration",
        {**TEXT, **TWO_SIDES, **SPECIAL, "dropout": 0.0},
        {**text, "labels": labels},
    ),
    "Whisper": (
        "WhisperForConditionalGeneration",
        {
            **TWO_SIDES, **SPECIAL, "vocab_size": WORDS, "num_mel_bins": 8, "max_source_positions": 20,
            "max_target_positions": 20, "dropout": 0.0,
        },
        {"input_features": tensor("sound", 2, 8, 40), "labels": labels},
    ),
    "Wav2Vec2": (
        "Wav2Vec2ForCTC",
        {
            **SIZE, "vocab_size": WORDS, "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
            "hidden_dropout": 0.0, "attention_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0,
            "activation_dropout": 0.0, "mask_time_prob": 0.0, "layerdrop": 0.0, "feat_extract_norm": "layer",
        },
        {"input_values": tensor("wave", 2, 120), "labels": 3 + whole("letters", WORDS - 3, 2, 3)},
    ),
    "Segformer": (
        "SegformerForSemanticSegmentation",
        {
            "num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [8, 16], "num_attention_heads": [1, 2],
            "sr_ratios": [2, 1], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16, "num_labels": 4, "drop_path_rate": 0.0, "classifier_dropout_prob": 0.0,
        },
        {"pixel_values": image["pixel_values"], "labels": whole("areas", 4, 2, 32, 32)},
    ),
    "CLIP": (
        "CLIPModel",
        {
            "text_config": {**TEXT, **SIZE, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
            "vision_config": {**SIZE, "image_size": 32, "patch_size": 8},
            "projection_dim": 16,
        },
        {**text, "pixel_values": image["pixel_values"], "return_loss": True},
    ),
}  # fmt: skip

steps = {
    **{k: (f"{k}ForCausalLM", v, {**text, "labels": ids}) for k, v in CAUSAL.items()},
    **{k: (f"{k}ForMaskedLM", v, {**text, "labels": labels}) for k, v in MASKED.items()},
    **{k: (f"{k}ForImageClassification", v, image) for k, v in IMAGES.items()},
    **OTHERS,
}


def in_double(value):
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value


for family, (name, settings, inputs) in steps.items():
    model = fill(getattr(hf, name)(getattr(hf, f"{family}Config")(**settings))).train()
    if family != "Mixtral":  # the product of its experts takes no doubles
        model, inputs = model.double(), {k: in_double(v) for k, v in inputs.items()}
    loss = model(**inputs).loss
    loss.backward()
    record(f"{family} loss", loss)
    record_gradients(family, model)
save()
