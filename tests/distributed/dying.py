"""The command `accord`, of which one rank is killed in its third epoch, unless it was started again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

from accord.cli.main import main
from accord.ranks.started import is_restarted
from accord.training.phase_trainer import PhaseTrainer

usual = PhaseTrainer.steps_of_epoch


def dies(self: PhaseTrainer) -> Iterator[float]:
    for step, share in enumerate(usual(self)):
        if self.epoch == 2 and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        yield share


if __name__ == "__main__":
    if os.environ["RANK"] == sys.argv.pop(1) and not is_restarted():
        PhaseTrainer.steps_of_epoch = dies
    main()
