"""The Trainer of transformers, on accelerate: losses of each step, an evaluation, a checkpoint, the weights."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from exchange import fill, record, record_weights, save, whole
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

WORDS = 40
config = GPT2Config(
    n_layer=1, n_head=2, n_embd=16, vocab_size=WORDS, n_positions=16, bos_token_id=1, eos_token_id=2,
    attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0,
)  # fmt: skip


class Lines(Dataset):
    def __init__(self, name, count):
        self.ids = whole(name, WORDS, count, 12)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class Losses(TrainerCallback):
    def __init__(self):
        self.losses = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.losses.append((logs["loss"], logs["learning_rate"], logs["grad_norm"]))


class InOrder(Trainer):
    """The generators of two libraries shuffle in two ways."""

    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def accuracy(prediction):
    guessed = np.argmax(prediction.predictions, -1)
    return {"accuracy": float((guessed[:, :-1] == prediction.label_ids[:, 1:]).mean())}


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        num_train_epochs=2,
        learning_rate=5e-3,
        adam_epsilon=1e-4,  # the gradient of the bias of keys is 0 but for rounding: Adam would make steps of it
        weight_decay=0.01,
        warmup_steps=2,
        lr_scheduler_type="cosine",
        gradient_accumulation_steps=2,
        max_grad_norm=0.5,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=0,
    )
    model = fill(GPT2LMHeadModel(config))
    losses = Losses()
    trainer = InOrder(
        model=model,
        args=arguments,
        train_dataset=Lines("train", 24),
        eval_dataset=Lines("eval", 8),
        compute_metrics=accuracy,
        callbacks=[losses],
    )
    result = trainer.train()
    record("trainer loss", np.float32(result.training_loss))
    record("trainer logs", np.array(losses.losses, np.float32))
    evaluation = trainer.evaluate()
    record("trainer eval", np.float32([evaluation["eval_loss"], evaluation["eval_accuracy"]]))
    record_weights("trainer", model)
    saved = sorted(Path(folder).glob("checkpoint-*"))
    record("checkpoints", len(saved))
    record("trainer predicted", trainer.predict(Lines("eval", 8)).predictions)

    more = InOrder(
        model=fill(GPT2LMHeadModel(config)),
        args=arguments,
        train_dataset=Lines("train", 24),
        eval_dataset=Lines("eval", 8),
    )
    more.train(resume_from_checkpoint=str(saved[0]))
    record_weights("resumed", more.model)
save()
