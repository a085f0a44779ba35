"""The one loop for every method: devices, seeds, early stopping, history, and several runs at once."""

from accord.training.checkpoints import Checkpoint, Checkpoints, Where, checkpoint_of
from accord.training.device import has_whole_gpu, resolve_device
from accord.training.forks import computes_here
from accord.training.loop import EpochRecord, Hook, Progress, Run, Trainer, TrainingOptions, Validate, training
from accord.training.optimisers import SGD, Adam, Updates
from accord.training.seeds import derive, seeded, stream
from accord.training.side_by_side import drive, train
from accord.training.stepping import training_step

__all__ = [
    "SGD",
    "Adam",
    "Checkpoint",
    "Checkpoints",
    "EpochRecord",
    "Hook",
    "Progress",
    "Run",
    "Trainer",
    "TrainingOptions",
    "Updates",
    "Validate",
    "Where",
    "checkpoint_of",
    "computes_here",
    "derive",
    "drive",
    "has_whole_gpu",
    "resolve_device",
    "seeded",
    "stream",
    "train",
    "training",
    "training_step",
]
