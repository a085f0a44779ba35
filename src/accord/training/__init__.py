"""The one loop for every method: devices, random streams, early stopping, history, and many runs at once."""

from accord.training.checkpoints import (
    Checkpoint,
    CheckpointPath,
    Checkpoints,
    checkpoint_of,
    clear_checkpoints,
    digest_of,
)
from accord.training.device import has_whole_gpu, resolve_device
from accord.training.driving import drive
from accord.training.fork_safety import computes_here
from accord.training.loop import training
from accord.training.phase_trainer import PhaseTrainer
from accord.training.random import derive, seeded, stream
from accord.training.ranks_checkpoint import RanksCheckpoint, refuse_other_data, refuse_other_ranks
from accord.training.run import Callback, EpochRecord, Progress, Run, TrainingOptions

__all__ = [
    "Callback",
    "Checkpoint",
    "CheckpointPath",
    "Checkpoints",
    "EpochRecord",
    "PhaseTrainer",
    "Progress",
    "RanksCheckpoint",
    "Run",
    "TrainingOptions",
    "checkpoint_of",
    "clear_checkpoints",
    "computes_here",
    "derive",
    "digest_of",
    "drive",
    "has_whole_gpu",
    "refuse_other_data",
    "refuse_other_ranks",
    "resolve_device",
    "seeded",
    "stream",
    "training",
]
