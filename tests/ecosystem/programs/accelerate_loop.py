"""A training loop on accelerate in one process: prepare, accumulate, clip, gather, save_state and load_state."""

import tempfile

import torch
from accelerate import Accelerator, init_empty_weights
from accelerate.utils import set_seed
from exchange import fill, record, record_weights, save, tensor, whole
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
model = fill(nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=24)
data = TensorDataset(tensor("x", 48, 10), whole("y", 4, 48))
loader = DataLoader(data, batch_size=8)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
accelerator.register_for_checkpointing(scheduler)

record("processes", accelerator.num_processes)
losses = []
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
record("accelerate losses", torch.stack(losses))
record_weights("accelerate", accelerator.unwrap_model(model))

model.eval()
guesses = []
with torch.inference_mode():
    for x, y in loader:
        guess, true = accelerator.gather_for_metrics((model(x).argmax(-1), y))
        guesses.append((guess == true).float().mean())
record("accuracies", torch.stack(guesses))

with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    accelerator.load_state(folder)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())

with init_empty_weights():  # parameters are made again from their attributes
    empty = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
assert all(p.is_meta and p.requires_grad for p in empty.parameters())
filled = fill(torch.nn.Linear(3, 2))
filled(torch.ones(1, 3)).sum().backward()
empty.load_state_dict({f"0.{k}": v for k, v in filled.state_dict().items()}, assign=True)
record("loaded into empty weights", empty(torch.ones(1, 3)).detach())
accelerator.print("done")
save()
