"""Packages on top of PyTorch, a few lines of each: values, gradients, trained weights."""

import tempfile
from pathlib import Path

import torch
from exchange import fill, record, record_gradients, record_weights, save, tensor, whole
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def einops():
    from einops import einsum, pack, rearrange, reduce, repeat
    from einops.layers.torch import EinMix, Rearrange, Reduce

    x = tensor("einops x", 2, 12, 6).requires_grad_()
    channels = rearrange(x, "b (h w) c -> b c h w", h=3)
    means = repeat(reduce(channels, "b c h w -> b c", "mean"), "b c -> b r c", r=2)
    products = einsum(means, x, "b r c, b n c -> b r n")
    packed, _ = pack([means, products], "b r *")
    mix = EinMix("b c -> b d", weight_shape="c d", bias_shape="d", c=4, d=3)
    layers = [Rearrange("b (h w) c -> b c h w", h=3), nn.Conv2d(6, 4, 1)]
    model = fill(nn.Sequential(*layers, Reduce("b c h w -> b c", "max"), mix))
    loss = packed.square().sum() + model(x).sum()
    loss.backward()
    record("einops loss", loss)
    record("einops gradient x", x.grad)
    record_gradients("einops", model)


def torchdiffeq():
    from torchdiffeq import odeint, odeint_adjoint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, t, y):
            return torch.tanh(self.layer(y)) * torch.cos(t)

    for name, solve in (("ode", odeint), ("adjoint", odeint_adjoint)):
        field, times = fill(Field()).double(), torch.linspace(0, 1, 5).double()
        path = solve(field, tensor("start", 3, 2).double(), times, rtol=1e-7, atol=1e-9)
        path.pow(2).sum().backward()
        record(f"{name} path", path)
        record_gradients(name, field)


def peft():
    import transformers as hf
    from peft import LoraConfig, PeftModel, get_peft_model

    def base():
        config = hf.LlamaConfig(
            vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            num_key_value_heads=2, max_position_embeddings=32,
        )  # fmt: skip
        return fill(hf.LlamaForCausalLM(config))

    ids = whole("ids", 60, 2, 8)
    small = LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
    )
    model = fill(get_peft_model(base(), small))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    record("peft loss", loss)
    record_gradients("peft", model)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        merged = PeftModel.from_pretrained(base(), folder).merge_and_unload()
    record("peft merged", merged(input_ids=ids).logits)


def lightning():
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

        def loss(self, batch, name):
            x, y = batch
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.log(name, loss)
            return loss

        def training_step(self, batch, i):
            return self.loss(batch, "train")

        def validation_step(self, batch, i):
            self.loss(batch, "valid")

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), 1e-2, eps=1e-4)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    loader = DataLoader(TensorDataset(tensor("x", 32, 8), whole("y", 3, 32)), 8)
    model = fill(Classifier())
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=folder, gradient_clip_val=0.5, accumulate_grad_batches=2,
        )  # fmt: skip
        trainer.fit(model, loader, loader)
        record_weights("lightning", model)
        record("lightning valid", trainer.callback_metrics["valid"])
        (file,) = Path(folder).rglob("*.ckpt")
        record_weights("lightning loaded", Classifier.load_from_checkpoint(file))


def diffusers():
    from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, UNet2DModel

    unet = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(16, 16),
        norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    )  # fmt: skip
    fill(unet)
    images, noise, times = tensor("im", 2, 1, 8, 8), tensor("n", 2, 1, 8, 8), whole("t", 20, 2)
    noisy = DDPMScheduler(num_train_timesteps=20).add_noise(images, noise, times)
    loss = nn.functional.mse_loss(unet(noisy, times).sample, noise)
    loss.backward()
    record("unet loss", loss)
    record_gradients("unet", unet)
    scheduler = DDIMScheduler(num_train_timesteps=20)
    scheduler.set_timesteps(4)
    with torch.no_grad():
        for t in scheduler.timesteps:
            noise = scheduler.step(unet(noise, t).sample, t, noise).prev_sample
    record("unet drawn", noise)
    coder = AutoencoderKL(
        in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(8, 16), norm_num_groups=4, latent_channels=2,
    )  # fmt: skip
    fill(coder)
    code = coder.encode(tensor("coded", 1, 3, 16, 16)).latent_dist
    decoded = coder.decode(code.mode()).sample
    (decoded.square().mean() + code.kl().mean()).backward()
    record("coder decoded", decoded)
    record_gradients("coder", coder)


def skorch():
    from skorch import NeuralNetClassifier

    class Softmax(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = fill(nn.Linear(5, 3))

        def forward(self, x):
            return torch.softmax(self.layer(x), -1)

    net = NeuralNetClassifier(
        Softmax, max_epochs=3, lr=0.1, iterator_train__shuffle=False, train_split=None, verbose=0
    )
    x = tensor("skorch x", 30, 5).numpy()
    net.fit(x, whole("skorch y", 3, 30).numpy())
    record("skorch probabilities", net.predict_proba(x))


def captum():
    from captum.attr import DeepLift, IntegratedGradients, Saliency

    model = fill(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    for kind in (IntegratedGradients, Saliency, DeepLift):
        record(f"captum {kind.__name__}", kind(model).attribute(tensor("captum x", 4, 6), target=1))


def kornia():
    import kornia

    x = ((tensor("kornia x", 2, 3, 16, 16) + 1) / 2).requires_grad_()
    blurred = kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
    edges = kornia.filters.sobel(blurred)
    turned = kornia.geometry.rotate(blurred, torch.tensor([30.0, 10.0]))
    (edges.sum() + turned.sum() + kornia.color.rgb_to_lab(x).sum()).backward()
    record("kornia edges", edges)
    record("kornia turned", turned)
    record("kornia gradient x", x.grad)
    record("kornia hsv", kornia.color.rgb_to_hsv(x.detach()))


def torch_geometric():
    from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool

    edges, x = whole("edges", 10, 2, 30), tensor("nodes", 10, 6)
    layers = {
        "gcn": GCNConv(6, 4),
        "gat": GATConv(6, 4, heads=2),
        "sage": SAGEConv(6, 4),
        "gin": GINConv(nn.Linear(6, 4)),
    }
    for name, layer in layers.items():
        out = fill(layer)(x, edges)
        out.square().sum().backward()
        record(f"{name} out", out)
        record_gradients(name, layer)
    record("pooled", global_mean_pool(x, whole("graphs", 3, 10).sort()[0]))


for package in (
    einops, torchdiffeq, peft, lightning, diffusers, skorch, captum, kornia, torch_geometric,
):  # fmt: skip
    package()
save()
