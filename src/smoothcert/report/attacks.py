"""The table of an attacked run: one row per label and multiple of the radius."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
from rich.table import Table

from smoothcert.certificates import Soundness
from smoothcert.maths.geometry import round_down
from smoothcert.records.findings import Finding, allowance, risk
from smoothcert.report.figures import COLOURS, STYLE, STYLES, bytes_of, figure_of

CLAIMS = (Soundness.GLOBAL, Soundness.MEMORY)  # labels that speak of the deployed predictor


def attack_summary(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """For each label and multiple: how many certificates were tried, how many broke, how many may, by how little held."""
    rows = []
    keys = {(list(Soundness).index(finding.soundness), finding.times) for finding in findings}
    for rank, times in sorted(keys):
        soundness = list(Soundness)[rank]
        own = [finding for finding in findings if (finding.soundness, finding.times) == (soundness, times)]
        violated = [finding for finding in own if finding.violated]
        claimed = soundness in CLAIMS and times <= 1
        allowed = allowance(own) if claimed else None
        names = dict.fromkeys(attempt.attack for finding in own for attempt in finding.attempts)
        rows.append(
            {
                "label": soundness.value,
                "times": times,
                "tried": len(own),
                "violated": len(violated),
                "allowance": allowed,
                "smallest_margin": min(attempt.margin for finding in own for attempt in finding.attempts),
                "nearest": min((_distance(finding) for finding in violated), default=None),
                "attempts": sum(len(finding.attempts) for finding in own),
                "held_by_attack": {name: _held(own, name) for name in names},
                "alpha": own[0].alpha,
                "chance": risk(own),
                "shared_noise": any(finding.shared_noise for finding in own),
                "broken": allowed is not None and (len(violated) > allowed or any(f.contradicted for f in own)),
            }
        )
    return rows


def _distance(finding: Finding) -> float:
    """How far out the worst attempt lies, in multiples of the certified radius; a point has no inside."""
    return finding.worst.gauge / finding.radius * finding.times if finding.radius > 0 else 0.0


def _held(findings: Sequence[Finding], name: str) -> float:
    """The share of certificates that this attack did not break."""
    own = [attempt for finding in findings for attempt in finding.attempts if attempt.attack == name]
    return sum(not attempt.violated for attempt in own) / len(own)


def attack_table(findings: Sequence[Finding]) -> Table:
    """The summary for people."""
    result = Table(title="certificates under attack")
    for name in (
        "label",
        "× radius",
        "tried",
        "violated",
        "allowance",
        "smallest margin",
        "nearest violation, × radius",
    ):
        result.add_column(name, justify="left" if name == "label" else "right")
    for row in attack_summary(findings):
        result.add_row(
            row["label"],
            f"{row['times']:g}",
            str(row["tried"]),
            str(row["violated"]),
            "–" if row["allowance"] is None else str(row["allowance"]),
            round_down(row["smallest_margin"]),
            "–" if row["nearest"] is None else f"{row['nearest']:.3f}",
            style="red" if row["broken"] else "",
        )
    shared = any(finding.shared_noise for finding in findings)
    result.caption = (
        f"violated: a rival leads at the point, except with probability {findings[0].alpha:g} per certificate. allowance: more "
        f"would come by chance with probability at most {risk(findings):g}"
        f"{' (shared noise: Markov’s inequality, which holds however the votes depend on one another)' if shared else ''}; –: the "
        "label promises nothing there"
    )
    return result


def draw_room(findings: Sequence[Finding]) -> bytes:
    """How much room certificates leave: the share that was not broken against the multiple of the radius, as PNG.

    One panel per label, the points of the attacks a little beside each other; the thick line is all of them together, so the
    lowest.
    """
    rows = attack_summary(findings)
    labels = dict.fromkeys(row["label"] for row in rows)
    with matplotlib.rc_context(STYLE):
        figure, panels = figure_of(len(labels), sharey=True)
        for panel, label in zip(panels, labels, strict=True):
            own = [row for row in rows if row["label"] == label]
            times = [row["times"] for row in own]
            beside = 0.008 * (max(times) - min(times))  # so that lines of equal height are all seen
            for position, name in enumerate(own[0]["held_by_attack"]):
                held = [100 * row["held_by_attack"][name] for row in own]
                style: Any = {"linewidth": 1, "marker": "o", "markersize": 4, "linestyle": STYLES[Soundness(label)]}
                shifted = [value + beside * position for value in times]
                panel.plot(shifted, held, color=COLOURS[position % len(COLOURS)], label=name, **style)
            held = [100 * (1 - row["violated"] / row["tried"]) for row in own]
            panel.plot(
                times,
                held,
                color="0.8",
                linewidth=7,
                zorder=1,
                label="all together",
                linestyle=STYLES[Soundness(label)],
            )
            panel.axvline(1.0, color="grey", linewidth=1)
            panel.set(
                xlabel="multiple of the certified radius",
                ylim=(0, 103),
                title=f"{label}, {own[0]['tried']} certificates",
            )
        panels[0].set_ylabel("certificates not broken (%)")
        panels[-1].legend(fontsize=9)
        return bytes_of(figure)
