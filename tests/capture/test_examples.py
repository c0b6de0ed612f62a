"""The training steps of examples/ give the same bits captured and plain, over 20 steps."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from gradlib.optim.lr_scheduler import LambdaLR
from tests.capture.programs import bits, left

FOLDER = Path(__file__).parents[2] / "examples"
STEPS = 20


def defined_in(name: str) -> dict[str, Any]:
    """The classes, functions and constants of an example, without what it imports."""
    tree = ast.parse((FOLDER / name).read_text())
    kinds = ast.FunctionDef, ast.ClassDef, ast.Assign
    tree.body = [node for node in tree.body if isinstance(node, kinds)]
    space = {"torch": torch, "nn": nn, "F": F, "math": math, "__name__": "example"}
    exec(compile(tree, str(FOLDER / name), "exec"), space)
    return space


def trained(wrap, make):
    torch.manual_seed(0)
    step, model, optimizer, batches, schedule = make()
    scheduler, step, found = LambdaLR(optimizer, schedule(STEPS)), wrap(step), []
    for _ in range(STEPS):
        found.append(step(*batches()))
        scheduler.step()
    return [found, left(model, optimizer)], step


def digits():
    example = defined_in("train_digits.py")
    model = example["DigitNet"](4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
    shift, device = example["shift"], "cpu"

    def step(images, labels):
        images, labels = shift(images.to(device)), labels.to(device)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item() * len(labels)

    def batches():
        return torch.randn(5, 1, 8, 8), torch.randint(0, 10, (5,))

    return step, model, optimizer, batches, example["schedule"]


def digits_with_the_loss():
    _, *rest = digits()
    model, optimizer, _, _ = rest
    shift = defined_in("train_digits.py")["shift"]

    def again(images, labels):
        loss = F.cross_entropy(model(shift(images)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return again, *rest


def text():
    example = defined_in("train_text.py")
    model = example["GPT"](128, 8, 16, 2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    symbols = torch.randint(0, 128, (500,))
    loss_of, draw_batch = example["loss_of"], example["draw_batch"]

    def step():
        loss = loss_of(model, *draw_batch(symbols, 4, 8, "cpu"))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step, model, optimizer, tuple, example["schedule"]


def test_training_steps():
    for make, replays in ((digits, 0), (digits_with_the_loss, 1), (text, 1)):
        expected, _ = trained(lambda f: f, make)
        found, step = trained(torch.capture, make)
        assert found == expected
        assert step.replays == replays, torch.explain(step)


def test_evaluation():
    example = defined_in("train_digits.py")
    torch.manual_seed(0)
    model = example["DigitNet"](4)
    evaluate = torch.capture(example["evaluate"])
    for _ in range(STEPS):
        images, labels = torch.randn(5, 1, 8, 8), torch.randint(0, 10, (5,))
        expected = example["evaluate"](model, images, labels, "cpu")
        assert evaluate(model, images, labels, "cpu") == expected
        assert bits(images)[0] == "torch.float32"
