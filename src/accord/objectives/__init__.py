"""Pure maths on logits: no model and no data is known here."""

from accord.objectives.binary import (
    agreement,
    cross_entropy,
    denoising,
    joint_denoising,
    kl_divergence,
    real_positive_probability,
)

__all__ = [
    "agreement",
    "cross_entropy",
    "denoising",
    "joint_denoising",
    "kl_divergence",
    "real_positive_probability",
]
