"""Classifiers: each gives logits and the features of its last hidden layer."""

from accord.models.classifiers.backbone import SMALLEST, Backbone, FeatureModel, FeatureReader, Wrapped
from accord.models.classifiers.convnet import ConvNet
from accord.models.classifiers.inception import Inception
from accord.models.classifiers.mlp import MLP
from accord.models.classifiers.noise_model import JoinedNoise, NoiseModel
from accord.models.classifiers.resnet import ResNet32
from accord.models.classifiers.resnet9 import ResNet9
from accord.models.classifiers.weight_net import WeightNet

__all__ = [
    "MLP",
    "SMALLEST",
    "Backbone",
    "ConvNet",
    "FeatureModel",
    "FeatureReader",
    "Inception",
    "JoinedNoise",
    "NoiseModel",
    "ResNet9",
    "ResNet32",
    "WeightNet",
    "Wrapped",
]
