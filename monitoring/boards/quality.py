"""What does the dashboard of quality show? What people say of hits, trust, the gate, and what guides are worth."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from monitoring.panels import A_SECOND, HALF, SHARE, THIRD, WIDE, board, lines, number
from monitoring.queries import rate, shared


def quality() -> builders.Dashboard:
    """How good are answers, as far as use tells?"""
    judged = rate("lodestone_judged_hits_total")
    answers = rate("lodestone_answers_total")
    right = rate("lodestone_judged_hits_total", where='judgement="relevant"')
    pressed = rate("lodestone_queries_shed_total", where='reason="text_only"')
    used = rate("lodestone_guides_total", where='status="used"')
    return board(
        "Lodestone: quality",
        "lodestone-quality",
        about="What people say of hits, what the gate decides, what guides are worth, when nothing is found.",
        rows=[
            (
                "What people say",
                [
                    number(
                        "Hits called right",
                        f"{right} / {judged}",
                        unit=SHARE,
                        span=THIRD,
                        help_="Of those judged. People judge what is strange: watch the trend, not the level.",
                    ),
                    number("Judged hits an hour", f"3600 * {judged}", span=THIRD),
                    number(
                        "Answers without a picture",
                        f"{rate('lodestone_answers_empty_total')} / {answers}",
                        unit=SHARE,
                        bad=[0.02, 0.1],
                        span=THIRD,
                        help_="Filters that match nothing, or an empty home.",
                    ),
                    lines(
                        "Judged hits",
                        (rate("lodestone_judged_hits_total", "judgement"), "{{judgement}}"),
                        unit=A_SECOND,
                        stacked=True,
                        span=WIDE,
                    ),
                ],
            ),
            (
                "Trust",
                [
                    lines(
                        "Trust by space",
                        (shared("lodestone_space_trust", "space"), "{{space}}"),
                        span=16,
                        help_="Learnt from what people say; 1 is neutral. A space that falls finds the wrong things.",
                    ),
                    number("Topics", shared("lodestone_trust_topics"), span=THIRD, help_="That trust was learnt for."),
                ],
            ),
            (
                "Gate",
                [
                    lines(
                        "Verdicts",
                        (rate("lodestone_gate_verdicts_total", "verdict"), "{{verdict}}"),
                        unit=A_SECOND,
                        stacked=True,
                        help_="simple: the text pass is taken to be good enough, and no guide is drawn.",
                    ),
                    lines(
                        "Guides saved",
                        (rate("lodestone_guides_saved_total", "reason"), "{{reason}}"),
                        unit=A_SECOND,
                        stacked=True,
                        help_="gate: a simple query. stable: further guides changed nothing.",
                    ),
                ],
            ),
            (
                "Guides and answers",
                [
                    lines(
                        "What became of guides",
                        (rate("lodestone_guides_total", "status"), "{{status}}"),
                        unit=A_SECOND,
                        stacked=True,
                        span=THIRD,
                        help_="rejected: unlike the others. dropped: no time.",
                    ),
                    lines("Used guides an answer", (f"{used} / {answers}", "guides"), span=THIRD),
                    lines("Cost an answer", (f"{rate('lodestone_generator_cost_total')} / {answers}", "cost"), span=THIRD),
                    lines(
                        "Answers by stage",
                        (rate("lodestone_answers_total", "stage"), "{{stage}}"),
                        unit=A_SECOND,
                        stacked=True,
                        span=HALF,
                    ),
                    lines(
                        "Answers that lack something",
                        (f"{rate('lodestone_answers_late_total')} / {answers}", "for want of time"),
                        (f"{pressed} / {answers}", "without guides, under load"),
                        unit=SHARE,
                        span=HALF,
                    ),
                ],
            ),
        ],
    )
