"""Classifier networks: shapes, features, and the noise model against its plain form."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from accord.models import model_of, models_of
from accord.models.classifiers import MLP, JoinedNoise, NoiseModel, ResNet9, ResNet32, WeightNet, Wrapped
from accord.models.classifiers import noise_model as noise_module
from accord.models.classifiers.backbone import Norm
from accord.models.classifiers.inception import InceptionBlock


@pytest.mark.parametrize("name", models_of("labels"))
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28)])
def test_every_model_gives_logits_made_of_its_features(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    network = model_of(name, "labels")(shape, 7).eval()
    inputs = torch.randn(3, *shape)
    features, logits = network.outputs(inputs)  # pyright: ignore[reportCallIssue]
    assert features.shape == (3, network.width)
    assert torch.equal(logits, network.head(features))
    assert torch.equal(logits, network(inputs))
    logits.sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_resnet32_has_its_published_size() -> None:
    """0.46 M parameters (He et al., Table 6), with shortcuts that have none."""
    assert sum(p.numel() for p in ResNet32((3, 32, 32), 10).parameters()) == 464_154
    strides = [layer.stride for layer in ResNet32((3, 32, 32), 10).modules() if isinstance(layer, nn.Conv2d)]
    assert len(strides) == 31
    assert strides.count((2, 2)) == 2


def test_resnet9_has_its_published_size() -> None:
    """6.57 M parameters, in eight convolutions and a head."""
    network = ResNet9((3, 32, 32), 10)
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in layers] == [64, 128, 128, 128, 256, 512, 512, 512]
    assert sum(p.numel() for p in network.parameters()) == 6_573_130
    pooled = network.layers(torch.zeros(1, 3, 32, 32))
    assert pooled.shape == (1, 512, 4, 4)


def test_the_mlp_reads_tables() -> None:
    layers = [layer for layer in MLP((5,), 3).modules() if isinstance(layer, nn.Linear)]
    assert [layer.in_features for layer in layers] == [256, 5, 256, 256]  # the head, then the hidden layers


def test_inception_joins_four_branches() -> None:
    block = InceptionBlock(8, 4, 6, 2, 3).eval()
    x = torch.randn(2, 8, 9, 9)
    joined = block(x)
    assert joined.shape == (2, 15, 9, 9)
    assert torch.equal(joined[:, 4:10], block.three(x))
    sizes = {layer.kernel_size for layer in block.modules() if isinstance(layer, nn.Conv2d)}
    assert sizes == {(1, 1), (3, 3), (5, 5)}


class Own(nn.Module):
    """A network that knows nothing of accord."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.ReLU())
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x))


def test_any_module_gives_its_features_by_a_layer_or_a_callable() -> None:
    torch.manual_seed(0)
    own, x = Own(), torch.randn(5, 4)
    for layer in ("body", lambda net, inputs: (net.body(inputs), net(inputs))):
        features, logits = Wrapped(own, layer).outputs(x)
        assert torch.equal(features, own.body(x))
        assert torch.equal(logits, own(x))
    with pytest.raises(KeyError):
        Wrapped(own, "nowhere")


def joined(h: NoiseModel, features: torch.Tensor, c: int) -> torch.Tensor:
    """hφ as the paper has it: the features joined with the one-hot class."""
    one_hot = F.one_hot(torch.full((len(features),), c), h.classes).to(features.dtype)
    return F.log_softmax(h.second(torch.relu(h.first(torch.cat([features, one_hot], 1)))), 1)


@pytest.mark.parametrize("block", [1 << 20, 40, 1])
def test_noise_model_is_the_plain_network_on_joined_inputs(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_module, "BLOCK_OF_CPU", block)
    torch.manual_seed(1)
    h, features = NoiseModel(6, 4).double(), torch.randn(5, 6, dtype=torch.float64)
    labels = torch.tensor([0, 3, 1, 2, 2])
    plain = torch.stack([joined(h, features, c) for c in range(4)], 1)  # (examples, true class, label)
    assert torch.allclose(h.rows(features).log(), plain)
    for c in range(4):
        assert torch.allclose(h(features, torch.tensor(c)), plain[:, c])
    costs = -plain.gather(2, labels[:, None, None].expand(-1, 4, 1)).squeeze(2)
    assert torch.allclose(h.costs(features, labels), costs)
    some = torch.tensor([[0, 2], [1, 3], [3, 3], [2, 0], [1, 1]])
    assert torch.allclose(h.costs(features, labels, some), costs.gather(1, some))


def test_a_norm_goes_by_what_it_has_seen_where_there_is_one_value() -> None:
    """In training, torch refuses a batch with one value of each channel."""
    norm, one = Norm(2).train(), torch.randn(1, 2, 1, 1)
    norm(torch.randn(9, 2, 3, 3) + 4)
    trained = norm(one)
    assert torch.equal(trained, norm.eval()(one))
    again = Norm(2)
    again.load_state_dict(dict(norm.state_dict()))  # a plain dict has no version
    assert again.num_batches_tracked is None
    assert torch.equal(again.eval()(one), trained)


@pytest.mark.parametrize("shape", [(5,), (3, 5)])
def test_a_weight_is_between_zero_and_one_and_of_one_loss(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    weigh, losses = WeightNet(), torch.rand(shape) * 9
    weights = weigh(losses)
    assert weights.shape == shape
    assert ((weights > 0) & (weights < 1)).all()
    one = weigh(losses.flatten()[-1:])
    torch.testing.assert_close(weights.flatten()[-1:], one)


def test_a_joined_noise_model_says_what_the_papers_would() -> None:
    """With the paper's two layers as its network, every answer is the same."""
    paper, width, classes = NoiseModel(4, 3), 4, 3

    class Two(nn.Module):
        def outputs(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = torch.relu(paper.first(inputs))
            return hidden, paper.second(hidden)

    joined = JoinedNoise(Two(), classes)
    features, labels = torch.randn(7, width), torch.arange(7) % classes
    chosen = torch.stack([torch.randperm(classes)[:2] for _ in range(7)])
    k = torch.tensor(1)
    torch.testing.assert_close(joined(features, k), paper(features, k))
    torch.testing.assert_close(joined.rows(features), paper.rows(features))
    torch.testing.assert_close(joined.costs(features, labels), paper.costs(features, labels))
    torch.testing.assert_close(joined.costs(features, labels, chosen), paper.costs(features, labels, chosen))
