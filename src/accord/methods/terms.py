"""The denoising terms of a task, for DeCA and DeCA(p)."""

from __future__ import annotations

from accord.methods.base import Method
from accord.methods.denoising import BinaryTerms, DenoisingTerms
from accord.methods.two_stage import MulticlassTerms

TERMS = {"clicks": BinaryTerms, "labels": MulticlassTerms}


def terms_of(method: Method) -> DenoisingTerms:
    return TERMS[method.setup.task](method)
