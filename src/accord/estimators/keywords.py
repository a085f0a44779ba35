"""Keywords of the estimators, for type checkers; docs/build.py writes them from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict


class RecommenderKeywords(TypedDict, total=False):
    epochs: int
    """The largest number of epochs in a phase."""
    batch_size: int
    """Clicks in a step. For each click, ``negatives`` non-clicks are drawn."""
    seed: int
    """One number from which every random stream is derived."""
    device: str
    """Where to train: cpu, cuda, or auto, which takes a GPU if there is one."""
    pretrained: Literal["keep", "head", "reset"]
    """In Python: what becomes of the weights of a torch module that is handed over. They are kept (keep), kept but
    for the last layer (head), or all layers are reset (reset); each network then draws its own."""
    dims: int | None
    """Length of user and item vectors; by default 32, 64 for lightgcn, and 128 for ials."""
    item_bias: bool | None
    """Give every item an offset of its own: by default mf, gmf and neumf have one (the paper's have none). cdae
    always has one, lightgcn and models that are solved never."""
    init_std: float
    """Standard deviation of fresh vectors (the paper's program has 0.01)."""
    patience: int | None
    """Epochs without a better noisy validation before a phase stops; by default 10, and on a log of few clicks as
    many as make 300 steps. 0 trains all epochs."""
    metric: str
    """The metric of noisy validation that chooses the epoch and, in a search, the settings: ndcg, recall,
    precision, hit or mrr, at the length of a list, such as recall@50."""
    restore: Literal["best", "last"] | None
    """Which epoch's weights to keep: the best by noisy validation (the default), or the last."""
    negatives: int
    """Non-clicks that are drawn for each click in every step; together they weigh as much as the click. Models
    that read whole rows (cdae) and models that are solved take one."""
    learning_rate: float | None
    """Adam's step size; by default 0.003, and 0.01 for lightgcn; three times that for a council's student."""
    l2: float | None
    """The paper's λ, divided by the number of users before use; by default 0.06, and 0.001 for lightgcn; a tenth
    of that for a council's student."""
    updates: Literal["auto", "dense", "rows"]
    """Adam's updates: dense (the paper's), by the rows a batch touched, or by rows for large tables alone."""
    split: Literal["auto", "time", "random", "global-time", "leave-one-out"]
    """How validation clicks are chosen: each user's latest (time), at random, the latest of the whole log (global-
    time), one of each user, the latest if times are known (leave-one-out); auto takes each user's latest if
    times are known, and else random ones."""
    valid_share: float
    """Share of the log held out for choosing the epoch."""
    valid_users: int
    """At most this many users are ranked in validation."""
    cold_users: Literal["popularity", "model"]
    """How users without a training click are ranked: by item popularity, or by the model's untrained vectors."""
    memory: float
    """Gigabytes that the rows of a log may take, at 60 bytes each; larger logs are kept in files, and trained in
    shuffled blocks."""
    neighbours: int
    """RP3β, itemknn: how many neighbours of each item are kept."""
    shrink: float
    """itemknn: added to the denominator of the cosine, against neighbours with few clicks in common."""
    rp3_alpha: float
    """RP3β: the power of a step's probability; below 1, users and items with many clicks count more."""
    rp3_beta: float
    """RP3β: the power of an item's clicks by which its weights are divided; 0 leaves popular items as they are."""
    ials_alpha: float
    """iALS: the weight of a pair that was not clicked; that of a click is one more."""
    ials_l2: float
    """iALS: λ, the squared vectors' penalty; each row's is multiplied by its clicks and its weighted non-clicks."""
    ease_l2: float
    """EASE: λ, the squared weights' penalty; large values suit logs of few or noisy clicks."""
    members: Sequence[Any] | str | None
    """Council: its kinds of members, by name; in Python also factories, estimators and fitted estimators."""
    member_seeds: int
    """Council: members of each kind that see all clicks; of a model that is solved, one."""
    folds: int | None
    """Council: parts of the clicks, each judged by members that never saw it; by default 5 (fewer for less than 20
    clicks), and 0 (members judge what they have seen) where there are more than two million clicks."""
    serve: Literal["student", "council"]
    """Council: what recommends: one student, or all members together."""
    kappa: float | None
    """Council: the price of disagreement, mean − κ · deviation; by default chosen by noisy validation."""
    caution: float
    """Council: how much log P(meant) counts in the ranking; 0 ranks by what is likely to be clicked."""
    clicked: float
    """Council: how much the log-odds of a click count in its quality, beside the log-odds that it was meant. 0
    finds clicks that follow the crowd; 4 and more find slips and dislikes better."""
    given: float
    """Council: how much the clicks as given count in what the student learns; the rest is what the council says."""
    c0: float | None
    """How sure a click is a true like (the paper searches 1 to 1000); by default 10 for deca, 1 for deca-p."""
    c1: float | None
    """How sure a sampled non-click is a true dislike (the paper searches 1 to 1000); by default 10."""
    alpha: float
    """Weight of KL(g‖f) in DeCA and of KL(f‖f′) in DeCA(p), against the other direction."""
    sub_tasks: Literal["both", "dp", "dn", "joint"]
    """Alternate DP and DN (both), use one alone (dp, dn), or train the noise models together (joint)."""
    stage_one_epochs: int | None
    """T1, the epochs with the constants c0 and c1; afterwards the constants are dropped, and both noise models
    explain every example, as with many classes. By default all epochs: the paper's recommenders have no second
    stage."""
    expectation: Literal["printed", "full"]
    """The sum of the second stage: printed, as in the paper, leaves out the observed class where it is not the
    class of the step; full keeps it."""
    noise_model: Any
    """Model of the two noise models h and h′; in Python also any callable (users, items) -> module."""
    prior: Any
    """Model of DeCA(p)'s prior f′, by name, or council; by default the target's own. In Python also a recommender,
    fitted or not, a council among them, or any callable (users, items) -> module."""
    auxiliary: Any
    """Model of DeCA's auxiliary g; in Python also any callable (users, items) -> module."""
    beta: float
    """R-CE: how much more an example counts if the model believes it."""
    drop_rate: float
    """T-CE: how many clicks are left out in the end, as a share of all examples of a batch, clicks and non-clicks.
    With one non-click for each click, it is twice that share of the clicks (the paper searches 0.05, 0.1, 0.2)."""
    ramp_epochs: int
    """T-CE: epochs until that share is reached."""
    loss: Literal["bce", "bpr", "softmax"]
    """What normal training minimises: cross-entropy of clicks and non-clicks one by one (bce), BPR of each click
    against each of its non-clicks, or the click's cross-entropy in a softmax over itself and its non-clicks.
    With the last two, scores order the items of one user, and qualities of different users do not compare."""


class ClassifierKeywords(TypedDict, total=False):
    epochs: int
    """Epochs in a phase."""
    batch_size: int
    """Examples in a step."""
    seed: int
    """One number from which every random stream is derived."""
    device: str
    """Where to train: cpu, cuda, or auto, which takes a GPU if there is one."""
    pretrained: Literal["keep", "head", "reset"]
    """In Python: what becomes of the weights of a torch module that is handed over. They are kept (keep), kept but
    for the last layer (head), or all layers are reset (reset); each network then draws its own."""
    patience: int
    """Epochs without better validation accuracy before a phase stops; 0 trains all epochs."""
    restore: Literal["best", "last"] | None
    """Which epoch's weights to keep: the best by noisy validation accuracy (the default), or the last (the default
    for a council's student, since what it learns has hardly any noise)."""
    optimiser: Literal["sgd", "adam"]
    """SGD with momentum 0.9, or Adam."""
    learning_rate: float | None
    """The step size; by default 0.1 for SGD (0.05 for mlp and convnet) and 0.001 for Adam, and a tenth of that for
    a module whose weights are kept. At 0 nothing is learned, and such a module predicts as before."""
    schedule: Literal["cosine", "one-cycle", "constant"]
    """Let the step size fall to zero over the epochs of a phase (cosine), rise for a while and then fall to zero
    (one-cycle, which lets large batches begin at a large rate), or keep it constant."""
    weight_decay: float
    """L2 term of the target."""
    clip: float | None
    """SGD: gradients are clipped to this length; a very confident prior can cause huge ones."""
    standardise: bool | Literal["auto"]
    """Scale columns and channels to mean 0 and deviation 1; auto does, but not for a module whose weights are
    kept, whole numbers that a module takes as they are, and scikit-learn's estimators."""
    augment: Literal["none", "crop", "crop-flip"]
    """Random crops out of the padded image, and mirror images."""
    valid_share: float
    """Share of the examples held out, with their noisy labels, for choosing the epoch."""
    precision: Literal["auto", "float32", "bfloat16"]
    """What networks compute in; auto takes bfloat16 on a GPU, unless MPS gives the process a share of it."""
    capture: bool
    """On a GPU, capture a step once and replay it."""
    compile: bool
    """On a GPU, fuse the network's kernels with torch.compile: seconds once, then faster epochs. Not for mw-net."""
    members: Sequence[Any] | str | None
    """Council: its kinds of members: models, or forest, logistic, neighbours and boosting of scikit-learn; in
    Python also classifiers, torch modules and any scikit-learn classifier with predict_proba. By default the
    model itself, and with it forest, logistic and neighbours for tables."""
    member_seeds: int
    """Council: members of each kind for each fold."""
    folds: int | None
    """Council: parts of the examples, each judged by members that never saw its labels; by default 5 (fewer for
    less than 10 examples), and 3 from 20,000 images on."""
    member_rounds: int | None
    """Council: rounds in which members learn from what all said before; by default 2 for images, 6 from 20,000
    images on, and 1 for tables."""
    member_epochs: int | None
    """Council: epochs of a member in the first round; by default half of the student's, a quarter from 20,000
    images on. There, later rounds go on with what was learnt, in half as many; elsewhere they begin anew."""
    serve: Literal["student", "council"]
    """Council: what classifies: one student, or all members of the last round together."""
    trust: float | None
    """Council: how far given labels count by Bayes' rule in what is learnt; by default by what explains them."""
    mixup: float | None
    """Council: how strongly examples are mixed in pairs in the first round, and a quarter of it later and for the
    student; by default 1 for images, 0.3 from 20,000 images on, and 0 for tables."""
    c1: float | tuple[float, ...]
    """How sure label k is where the class of the step is k; one number, or one for each class."""
    c2: float | tuple[float, ...]
    """How sure the other labels are; one number, or one for each class."""
    alpha: float
    """Weight of KL(f‖f′) in DeCA(p) and of KL(g‖f) in DeCA, against the other direction."""
    stage_one_epochs: int | None
    """T1, the epochs of the first stage; by default half of all."""
    expectation: Literal["printed", "full"]
    """The sum of the second stage: printed, as in the paper, leaves out c = ỹ where ỹ is not the class of the
    step; full keeps it."""
    detach_features: bool
    """Keep the noise model's gradient from the target."""
    noise_model: Any
    """Network of hφ: auto, the paper's two layers, or a model for tables, whose columns are the target's features
    and the class; in Python also any torch module, or a callable (shape, classes) -> module."""
    noise_width: int | None
    """Width of the hidden layer of hφ, with noise_model auto; by default that of the features."""
    noise_classes: int | None
    """Classes that an example sums over in the second stage: half are its likeliest, half are others in turn; by
    default all, and 64 if there are more than 100 classes."""
    prior: Any
    """Model of DeCA(p)'s prior f′, by name, or council; by default the target's own. In Python also a classifier,
    fitted or not, a council among them, or any torch module or callable (shape, classes) -> module."""
    auxiliary: Any
    """Model of DeCA's auxiliary g; auto takes convnet for images and mlp for tables; in Python also any torch
    module, or a callable (shape, classes) -> module."""
    keep_share: float
    """ITLM: the share of examples kept from the second round on."""
    rounds: int
    """ITLM: rounds that the epochs are divided into."""
    weight_rate: float
    """MW-Net: the step size of its weight network (the published one by default)."""
