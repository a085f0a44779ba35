"""Names of the labelled sets in the catalogue, apart from it: the command line asks before anything is imported."""

LABELLED_NAMES = ("digits", "mnist", "fashion-mnist", "cifar10")
