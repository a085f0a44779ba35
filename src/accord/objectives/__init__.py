"""Pure maths on logits: no model and no data is known here."""

from accord.objectives.binary import (
    agreement,
    cross_entropy,
    denoising,
    joint_denoising,
    kept_positives,
    kl_divergence,
    real_positive_probability,
    reweighted_cross_entropy,
    truncated_cross_entropy,
)

__all__ = [
    "agreement",
    "cross_entropy",
    "denoising",
    "joint_denoising",
    "kept_positives",
    "kl_divergence",
    "real_positive_probability",
    "reweighted_cross_entropy",
    "truncated_cross_entropy",
]
