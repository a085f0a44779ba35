"""What DeCA(p)'s two stages cost with many classes: steps of ResNet-32 at batch 256, of plain cross-entropy's.

    python benchmarks/many_classes.py [--classes 1000] [--batch 256] [--steps 5]

Prints ratios measured in this one run: the first stage, the second over some classes (the default beyond 100), and
the second over all of them. The prior's forward pass is counted too.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch
from accord.data.labelled import LabelledData, Scaling
from accord.estimators.classifier_settings import ClassifierSettings
from torch import nn

from accord.methods import Clock
from accord.models import NoiseModel, ResNet32
from accord.training import TrainingOptions, training_step
from accord.training.loop import make_optimiser


def step_time(
    data: LabelledData, classes: int, batch: int, steps: int, device: torch.device, **settings: object
) -> float:
    """Median seconds of a step of the last phase."""

    def build(role: str, model: str | None = None) -> nn.Module:
        network = NoiseModel(64, classes) if model == "noise" else ResNet32((3, 32, 32), classes)
        return network.to(device)

    own = ClassifierSettings(**settings)  # pyright: ignore[reportArgumentType]
    phases = own.make_method(classes, "convnet").phases(build)
    for network in phases[0].networks.values():
        if len(phases) > 1:
            network.requires_grad_(False).eval()
    phase = phases[-1]
    options = TrainingOptions(batch_size=batch, learning_rate=0.1, optimiser="sgd", weight_decay=5e-4)
    optimiser = make_optimiser(phase, options)
    times = []
    for k in range(steps + 2):
        batches = data.epoch(batch, torch.Generator(device).manual_seed(k))
        if device.type == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        training_step(phase, optimiser, next(iter(batches)), Clock(k, 0, 0.1))
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return median(times[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.manual_seed(0)
    images = torch.randint(0, 256, (args.batch, 32, 32, 3), dtype=torch.uint8, device=device)
    labels = torch.randint(0, args.classes, (args.batch,), device=device)
    rows = torch.arange(args.batch, device=device)
    data = LabelledData(images, labels, rows, Scaling.of(images).to(device))
    common = (args.classes, args.batch, args.steps, device)
    plain = step_time(data, *common, method="normal")
    print(f"{args.classes} classes, batch {args.batch}, {device}: plain cross-entropy {plain * 1e3:.0f} ms a step")
    every = args.classes
    for words, settings in (
        ("first stage", {"stage_one_epochs": 1}),
        ("second stage, 64 classes of each example", {"stage_one_epochs": 0, "noise_classes": 64}),
        ("second stage, all classes", {"stage_one_epochs": 0, "noise_classes": every}),
    ):
        cost = step_time(data, *common, method="deca-p", **settings)
        print(f"{words}: {cost / plain:.2f} of it", flush=True)


if __name__ == "__main__":
    main()
