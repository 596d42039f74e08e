"""A record to change and to store, where only a few of its fields matter."""

from __future__ import annotations

from smoothcert.certificates import Soundness
from smoothcert.records.record import Record

RECORD = Record(
    index=0,
    truth=1,
    label=1,
    radius=0.5,
    proxy_radius=0.5,
    log_volume=-1.0,
    region_radius=1.0,
    norm=2.0,
    soundness=Soundness.GLOBAL,
    rule="Gaussian l2",
    law="gaussian",
    scale=0.5,
    loc=0.0,
    domain="reals, float arithmetic",
    alpha=0.001,
    lower=0.9,
    upper=None,
    trials=1000,
    selection=(10, 90),
    selection_invalid=0,
    estimation=((50, 950),),
    estimation_invalid=(0,),
    stopped="all votes",
)
