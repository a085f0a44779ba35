"""Names of the labelled sets in the catalogue, apart from it: the command line asks before anything is imported."""

HUMAN_LABELS = ("aggregate", "random1", "random2", "random3", "worst")
"""Labels that people gave CIFAR-10's images: by majority, by one person each, or a wrong one if there is any."""
LABELLED_NAMES = ("digits", "mnist", "fashion-mnist", "cifar10", *(f"cifar10n-{kind}" for kind in HUMAN_LABELS))
