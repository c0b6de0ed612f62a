"""Metrics of torchmetrics: values over two batches, as modules and as functions, and a differentiable one."""

import torch
import torchmetrics
from exchange import record, save, tensor, whole
from torchmetrics import functional as tf

guesses = [tensor(f"p{i}", 20, 5).softmax(-1) for i in range(2)]
classes = [whole(f"t{i}", 5, 20) for i in range(2)]
binary = [(tensor(f"b{i}", 20) + 1) / 2 for i in range(2)]
truth = [whole(f"bt{i}", 2, 20) for i in range(2)]
many = {"task": "multiclass", "num_classes": 5}

METRICS = {
    "accuracy": (torchmetrics.Accuracy(**many), guesses, classes),
    "top 2": (torchmetrics.Accuracy(**many, top_k=2), guesses, classes),
    "f1 macro": (torchmetrics.F1Score(**many, average="macro"), guesses, classes),
    "precision": (torchmetrics.Precision(**many, average=None), guesses, classes),
    "recall": (torchmetrics.Recall(**many, average="weighted"), guesses, classes),
    "confusion": (torchmetrics.ConfusionMatrix(**many), guesses, classes),
    "calibration": (torchmetrics.CalibrationError(**many), guesses, classes),
    "auroc": (torchmetrics.AUROC(task="binary"), binary, truth),
    "average precision": (torchmetrics.AveragePrecision(task="binary"), binary, truth),
    "auroc classes": (torchmetrics.AUROC(**many, thresholds=20), guesses, classes),
    "mse": (torchmetrics.MeanSquaredError(), binary, [t.float() for t in truth]),
    "mae": (torchmetrics.MeanAbsoluteError(), binary, [t.float() for t in truth]),
    "r2": (torchmetrics.R2Score(), binary, [t.float() for t in truth]),
    "pearson": (torchmetrics.PearsonCorrCoef(), binary, [t.float() for t in truth]),
    "spearman": (torchmetrics.SpearmanCorrCoef(), binary, [tensor(f"s{i}", 20) for i in range(2)]),
    "cosine": (
        torchmetrics.CosineSimilarity(),
        guesses,
        [tensor(f"c{i}", 20, 5) for i in range(2)],
    ),
    "kl": (torchmetrics.KLDivergence(), guesses, guesses[::-1]),
}
for name, (metric, inputs, targets) in METRICS.items():
    for i, (a, b) in enumerate(zip(inputs, targets, strict=True)):
        record(f"{name} batch {i}", metric(a, b))
    record(name, metric.compute())
    metric.reset()

collection = torchmetrics.MetricCollection(
    [torchmetrics.Accuracy(**many), torchmetrics.F1Score(**many), torchmetrics.Precision(**many)]
)
for a, b in zip(guesses, classes, strict=True):
    collection.update(a, b)
for key, value in collection.compute().items():
    record(f"collection {key}", value)

mean = torchmetrics.MeanMetric()
mean.update(tensor("m", 5), weight=tensor("w", 5).abs())
record("mean", mean.compute())

images = [(tensor(f"image {i}", 2, 3, 32, 32) + 1) / 2 for i in range(2)]
record("psnr", torchmetrics.image.PeakSignalNoiseRatio(data_range=1.0)(*images))
record("ssim", torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0)(*images))
record("perplexity", torchmetrics.text.Perplexity()(guesses[0][None], classes[0][None]))
record(
    "retrieval",
    torchmetrics.retrieval.RetrievalMRR()(binary[0], truth[0], indexes=whole("q", 4, 20)),
)

x = binary[0].clone().requires_grad_()
tf.mean_squared_error(x, truth[0].float()).backward()
record("gradient of mse", x.grad)
record("pairwise", tf.pairwise_cosine_similarity(guesses[0]))
state = torchmetrics.Accuracy(**many)
state.persistent(True)
state.update(guesses[0], classes[0])
other = torchmetrics.Accuracy(**many)
other.load_state_dict(state.state_dict(), strict=False)
record("state", torch.as_tensor(sum(v.sum() for v in state.state_dict().values())))
save()
