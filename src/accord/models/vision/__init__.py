"""Classifier networks: each gives logits and the features of its last hidden layer."""

from accord.models.vision.backbone import SMALLEST, Backbone, FeatureModel, FeatureReader, Wrapped
from accord.models.vision.convnet import ConvNet
from accord.models.vision.inception import Inception
from accord.models.vision.mlp import MLP
from accord.models.vision.resnet import ResNet32

__all__ = [
    "MLP",
    "SMALLEST",
    "Backbone",
    "ConvNet",
    "FeatureModel",
    "FeatureReader",
    "Inception",
    "ResNet32",
    "Wrapped",
]
