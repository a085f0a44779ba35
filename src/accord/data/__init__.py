"""Tables in, tensors out: reading, ids, splits, negatives and the simulator."""

from accord.data.clicks import Clicks, load_clicks
from accord.data.ids import Ids
from accord.data.log_parts import LogParts, fold_log, split_log
from accord.data.reading import Columns, read_log
from accord.data.splits import holdout_mask, three_way

__all__ = [
    "Clicks",
    "Columns",
    "Ids",
    "LogParts",
    "fold_log",
    "holdout_mask",
    "load_clicks",
    "read_log",
    "split_log",
    "three_way",
]
