"""The one loop for every method: devices, seeds, early stopping, history."""

from accord.training.device import resolve_device
from accord.training.loop import EpochRecord, Hook, Progress, Trainer, TrainingOptions, train, training_step
from accord.training.optimisers import Adam, Updates
from accord.training.seeds import derive, seeded, stream

__all__ = [
    "Adam",
    "EpochRecord",
    "Hook",
    "Progress",
    "Trainer",
    "TrainingOptions",
    "Updates",
    "derive",
    "resolve_device",
    "seeded",
    "stream",
    "train",
    "training_step",
]
