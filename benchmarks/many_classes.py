"""What DeCA(p)'s two stages cost with many classes: steps of ResNet-32 at batch 256, of plain cross-entropy's.

    python benchmarks/many_classes.py [--classes 1000] [--batch 256] [--steps 5]

Prints ratios measured in this one run: the first stage, the second over some classes (the default beyond 100), and
the second over all of them. The prior's forward pass is counted too: examples are cropped and
flipped, so that it is asked anew in every epoch.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch

from accord.batches.labels import LabelData, LabelFeed
from accord.batches.scaling import Scaling
from accord.data.augmentation import Augmentation
from accord.estimators.settings import make_settings
from accord.methods import Setup
from accord.models.classifiers import NoiseModel, ResNet32
from accord.models.stack import Single, Stack
from accord.objectives import multiclass
from accord.training import Run, TrainingOptions
from accord.training.phase_trainer import PhaseTrainer


def step_time(
    data: LabelData, classes: int, batch: int, steps: int, device: torch.device, **settings: object
) -> float:
    """Median seconds of an epoch of the last phase, which is one step, with its batch."""
    stacks: list[Stack] = []

    def build(role: str, architecture: str | None = None) -> Single:
        network = NoiseModel(64, classes) if architecture == "noise-model" else ResNet32((3, 32, 32), classes)
        stacks.append(Single(network.to(device)))
        return stacks[-1]  # pyright: ignore[reportReturnType]

    own = make_settings("labels", {"model": "resnet32", **settings})
    setup = Setup("labels", multiclass, own, classes=classes)
    phases = own.method_class().bound(setup).phases(build)
    for network in phases[0].networks.values():
        if len(phases) > 1:
            network.requires_grad_(False).eval()
    options = TrainingOptions(batch_size=batch, learning_rate=0.1, optimiser="sgd", weight_decay=5e-4)
    trainer = PhaseTrainer(phases[-1], (1, 1), stacks, [], [Run(options, data, LabelFeed)])
    times = []
    for _ in range(steps + 2):
        if device.type == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        trainer.train_epoch()
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
    data = LabelData(images, labels, rows, Scaling.of(images).to(device), Augmentation(flip=True))
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
