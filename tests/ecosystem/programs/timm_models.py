"""timm's ResNet and vision transformer: one step of each, features, a new head, augmentation, an optimizer."""

import timm
import torch
from exchange import fill, record, record_gradients, record_weights, save, tensor, whole
from timm.data import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.models.resnet import BasicBlock, ResNet
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, accuracy

images, classes = tensor("images", 8, 3, 64, 64), whole("classes", 7, 8)


def step(name, model, loss_of):
    fill(model).train()
    output = model(images)
    loss = loss_of(output, classes)
    loss.backward()
    record(f"{name} loss", loss)
    record(f"{name} output", output)
    record_gradients(name, model)
    top1, top2 = accuracy(output, classes, topk=(1, 2))
    record(f"{name} accuracy", torch.stack([top1, top2]))


resnet = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=7, channels=(8, 16, 16, 24), base_width=64)
step("resnet", resnet, LabelSmoothingCrossEntropy(0.1))
for key, value in resnet.state_dict().items():
    if "running" in key:
        record(f"resnet weight {key}", value)

vit = VisionTransformer(
    img_size=64, patch_size=16, num_classes=7, embed_dim=32, depth=2, num_heads=4, init_values=0.1
)
step("vit", vit, torch.nn.CrossEntropyLoss())
vit.eval()
with torch.no_grad():
    record("vit features", vit.forward_features(images))
    before, layers = vit.forward_intermediates(images, indices=2)
    record("vit layer", layers[0])
    vit.reset_classifier(3)
    fill(vit)
    record("vit head", vit(images))

optimizer = create_optimizer_v2(resnet, opt="adamw", lr=1e-3, weight_decay=0.05, eps=1e-4)
scheduler = CosineLRScheduler(optimizer, t_initial=5, warmup_t=2, warmup_lr_init=1e-4)
ema = ModelEmaV3(resnet, decay=0.9)
for i in range(3):
    scheduler.step(i)
    optimizer.zero_grad()
    SoftTargetCrossEntropy()(resnet(images), torch.softmax(tensor(f"t{i}", 8, 7), -1)).backward()
    optimizer.step()
    ema.update(resnet)
record_weights("ema", ema.module)

small = timm.create_model("resnet10t", pretrained=False, num_classes=3)
fill(small).eval()
record("created", small(images))
mixed, targets = Mixup(mixup_alpha=0.2, num_classes=7)(images.clone(), classes)
assert mixed.shape == images.shape and targets.shape == (8, 7)
save()
