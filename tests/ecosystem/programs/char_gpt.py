"""A GPT on characters, with what training scripts of this kind use: autocast, a scaler, parameter groups, compile,
accumulated gradients, clipping, a schedule by hand, a checkpoint to go on from, and sampling.
"""

import inspect
import math
import os
import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn as nn
from exchange import fill, record, record_weights, save
from torch import optim
from torch.nn import functional as F

torch.manual_seed(0)
on_gpu = torch.cuda.is_available()
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


@dataclass
class Config:
    block_size: int = 16
    vocab_size: int = 64
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    dropout: float = 0.0
    bias: bool = False


class Norm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, config, flash):
        super().__init__()
        self.heads, self.flash, self.dropout = config.n_head, flash, config.dropout
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        size = config.block_size
        self.register_buffer("mask", torch.ones(size, size, dtype=torch.bool).tril())

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(C, dim=2)
        )
        if self.flash:
            y = F.scaled_dot_product_attention(
                q, k, v, dropout_p=self.dropout if self.training else 0, is_causal=True
            )
        else:
            scores = torch.einsum("bhic,bhjc->bhij", q, k) / math.sqrt(q.shape[-1])
            scores = scores.masked_fill(~self.mask[:T, :T], -torch.inf)
            y = self.attn_dropout(scores.softmax(-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config, flash):
        super().__init__()
        self.ln_1, self.attn = Norm(config.n_embd, config.bias), Attention(config, flash)
        self.ln_2 = Norm(config.n_embd, config.bias)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias),
                gelu=nn.GELU(),
                c_proj=nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias),
            )
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(self.mlp.gelu(self.mlp.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                h=nn.ModuleList([Block(config, flash=i % 2 == 0) for i in range(config.n_layer)]),
                ln_f=Norm(config.n_embd, bias=config.bias),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._start)

    def _start(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, ids, targets=None):
        places = torch.arange(0, ids.size(1), dtype=torch.long, device=ids.device)
        x = self.transformer.wte(ids) + self.transformer.wpe(places)
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(
            logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
        )

    def optimizer(self, decay, lr, betas):
        by_kind = {True: [], False: []}  # matrices and tables decay, scales do not
        for parameter in self.parameters():
            by_kind[parameter.ndim > 1].append(parameter)
        groups = [
            {"params": by_kind[k], "weight_decay": decay if k else 0.0} for k in (True, False)
        ]
        extra = {"fused": True} if "fused" in inspect.signature(optim.AdamW).parameters else {}
        return optim.AdamW(groups, lr=lr, betas=betas, eps=1e-4, **(extra if on_gpu else {}))

    @torch.inference_mode()
    def sample(self, ids, count, temperature=1.0, top_k=None):
        for _ in range(count):
            scores = self(ids[:, -self.config.block_size :])[0][:, -1] / temperature
            if top_k is not None:
                worst = scores.topk(top_k).values[:, -1:]
                scores = scores.masked_fill(scores < worst, -torch.inf)
            ids = torch.cat([ids, torch.multinomial(scores.softmax(-1), num_samples=1)], dim=1)
        return ids


text = inspect.getsource(inspect)[:20000].encode("ascii", "replace")
letters = sorted(set(text))
data = np.array([letters.index(c) for c in text], dtype=np.uint16)
config = Config(vocab_size=(len(letters) + 63) // 64 * 64)
device = "cuda" if on_gpu else "cpu"
dtype = os.environ.get("CHAR_GPT_DTYPE", "float32")
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = nullcontext() if dtype == "float32" else torch.amp.autocast(device_type=device, dtype=ptdtype)


def get_batch(step, batch=6):
    starts = [(step * 977 + i * 331) % (len(data) - config.block_size - 1) for i in range(batch)]
    x, y = (
        torch.stack(
            [
                torch.from_numpy(data[s + d : s + d + config.block_size].astype(np.int64))
                for s in starts
            ]
        )
        for d in (0, 1)
    )
    return x.to(device), y.to(device)


def get_lr(step, warmup=4, last=20, highest=1e-2, lowest=1e-3):
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    share = min(1.0, (step - warmup) / (last - warmup))
    return lowest + 0.5 * (1.0 + math.cos(math.pi * share)) * (highest - lowest)


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    losses = torch.zeros(4)
    for k in range(4):
        with ctx:
            losses[k] = model(*get_batch(1000 + k))[1].item()
    model.train()
    return losses.mean()


model = fill(GPT(config)).to(device)
scaler = torch.amp.GradScaler(device, enabled=(dtype == "float16"))
optimizer = model.optimizer(0.1, 1e-2, (0.9, 0.95))
raw_model, model = model, torch.compile(model, backend="eager")
started = time.time()
folder = tempfile.mkdtemp()
for step in range(12):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(step)
    if step % 5 == 0:
        record(f"estimate {step}", estimate_loss(model))
        checkpoint = {
            "model": raw_model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "config": asdict(config),
            "step": step,
        }
        torch.save(checkpoint, os.path.join(folder, "ckpt.pt"))
    for micro in range(2):
        with ctx:
            _, loss = model(*get_batch(2 * step + micro))
            loss = loss / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    record(f"loss {step}", loss)
    record(f"norm {step}", norm)
print(f"{(time.time() - started) / 12 * 1000:.0f} ms a step")
record_weights("trained", raw_model)

checkpoint = torch.load(os.path.join(folder, "ckpt.pt"), map_location=device)
again = GPT(Config(**checkpoint["config"])).to(device)
again.load_state_dict(checkpoint["model"])
again_optimizer = again.optimizer(0.1, 1e-2, (0.9, 0.95))
again_optimizer.load_state_dict(checkpoint["optimizer"])
for step in range(checkpoint["step"], 12):
    for group in again_optimizer.param_groups:
        group["lr"] = get_lr(step)
    for micro in range(2):
        (again(*get_batch(2 * step + micro))[1] / 2).backward()
    torch.nn.utils.clip_grad_norm_(again.parameters(), 1.0)
    again_optimizer.step()
    again_optimizer.zero_grad(set_to_none=True)
record_weights("resumed", again)

again.eval()
drawn = again.sample(
    torch.zeros((1, 1), dtype=torch.long, device=device), 20, temperature=0.8, top_k=10
)
assert drawn.shape == (1, 21)
record("greedy", again.sample(torch.zeros((1, 1), dtype=torch.long, device=device), 20, top_k=1))
save()
