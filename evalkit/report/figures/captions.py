"""Words of the figures in both languages: title and caption of each, and the names in them."""

from __future__ import annotations

from evalkit.report.metric_names import Words

BARS: Words = (
    "Dot: value. Thick line: {level} interval, cases resampled. Thin line: if every missing answer had gone "
    "against or for it. Dashed: chance.",
    "圆点：数值；粗线：{level} 区间（按样本重抽样）；细线：缺失回答全部不利或全部有利时的取值；虚线：随机水平。",
)

FIGURES: dict[str, tuple[Words, Words]] = {
    "rates": (("Main rates with their intervals", "主要比率及区间"), BARS),
    "coefficients": (("Coefficients of agreement", "一致性系数"), ("As above; 0 is chance.", "同上；0 为随机水平。")),
    "ranking": (
        ("Ranking of the systems", "系统排名"),
        (
            "Ratings of Bradley and Terry with ties, in Elo's points, with {level} intervals, cases resampled: 400 "
            "points are ten wins to one loss. By the judge's verdicts, biases included.",
            "含平局的 Bradley-Terry 评级（Elo 分制，400 分即十胜一负），附 {level} 区间（按样本重抽样）；"
            "依据裁判的结论，包含其偏差。",
        ),
    ),
    "ranking_rates": (
        ("Win rates of the systems", "系统胜率"),
        (
            "Ties count as half; {level} intervals, cases resampled. Ratings are not determined: some system won, or "
            "lost, every game.",
            "平局计半；附 {level} 区间（按样本重抽样）。评级无法确定：有系统全胜或全负。",
        ),
    ),
    "confusion": (
        ("Labels against verdicts", "标注与结论"),
        ("Shade: the share of its row. On the diagonal both agree.", "颜色深浅：占该行的比例；对角线表示一致。"),
    ),
    "passes": (
        ("What the two orders said", "两种顺序的结论"),
        (
            "Pairs by what was said when A stood first and when B did. A judge that goes by the text stays on the "
            "diagonal; one that goes by place falls into the corners beside it.",
            "按 A 在前与 B 在前时的结论统计。只看内容的裁判落在对角线上；受位置影响的裁判落在另外两角。",
        ),
    ),
    "lengths": (
        ("Length", "长度"),
        (
            "How often the longer response won, of decided pairs, by how much longer it is; numbers of pairs beside, "
            "{level} intervals over cases. Above one half may be quality, too.",
            "在分出胜负的比较中较长回答获胜的比例，按长度倍数分组；旁注比较次数，{level} 区间（按样本数）。"
            "高于一半也可能源于质量。",
        ),
    ),
    "reliability": (
        ("Reliability of its confidence", "置信度可靠性"),
        (
            "How often it is right at each stated confidence; larger dots are more pairs, {level} intervals "
            "over cases. On the dashed line confidence is worth what it says.",
            "各置信度下的正确率；圆点越大比较越多，{level} 区间（按样本数）。虚线上置信度名副其实。",
        ),
    ),
    "frontier": (
        ("What a tie threshold buys", "平局阈值的取舍"),
        (
            "Each dot is a threshold that changes something: more ties against agreement with labels and against ties "
            "that do not carry over. The large dot is the one in use.",
            "每个点对应一个会带来变化的阈值：平局增多与标注一致率、平局不传递率之间的取舍；大圆点为当前阈值。",
        ),
    ),
    "scores": (
        ("Scores given", "分值分布"),
        (
            "Share of responses by score; people's grades are on their own scale.",
            "各分值所占比例；人工评分为其自身尺度。",
        ),
    ),
    "cycles": (
        ("Verdicts that run in circles", "循环的结论"),
        (
            "Arrows go from winner to loser. Reversing the dashed ones is the least that would end all circles of the "
            "case. Names of the responses are in the cases below.",
            "箭头由胜者指向败者；反转虚线箭头是消除该样本全部循环所需的最少改动。各回答的名称见下方样本。",
        ),
    ),
    "corrected": (
        ("Rates, and what labels make of them", "比率及按标注的修正"),
        (
            "Faint: as judged. Below each: corrected by the labelled part (prediction-powered inference), which holds "
            "if the labelled ones were chosen at random. {level} intervals.",
            "浅色：裁判给出的比率；其下为按已标注部分修正的结果（预测驱动推断，须为随机抽取的标注）。{level} 区间。",
        ),
    ),
    "costs": (
        ("What the answers took", "开销"),
        (
            "Tokens of prompts (blue) and answers (orange) for a case, money, and the latency of half and of nine "
            "tenths of the answers: of every answer when it was made, those from the store included.",
            "每个样本的提示词元（蓝）与输出词元（橙）、费用，以及半数与九成回答的延迟；按回答生成时计，包括来自缓存的回答。",
        ),
    ),
    "by_metric": (
        ("By metric", "按指标"),
        ("Best first; {level} intervals, cases resampled.", "按名次排列；{level} 区间（按样本重抽样）。"),
    ),
    "front": (
        ("What agreement costs", "一致性与费用"),
        (
            "On the line: better than chance, and no other is shown to agree as well for less. Vertical lines: {level} "
            "intervals. Stored answers count with what they cost.",
            "线上各点：优于随机，且没有其他配置被证明能以更低费用达到同等一致性。竖线：{level} 区间。"
            "来自缓存的回答同样计费。",
        ),
    ),
    "told_apart": (
        ("Which configurations differ", "哪些配置存在差异"),
        (
            "Filled: the two differ significantly (Holm over all pairs, {level}). Empty: not shown to differ, which "
            "does not show that they are equal.",
            "实心：两者差异显著（对全部配对做 Holm 校正，{level}）；空心：未能表明存在差异，但不表示相同。",
        ),
    ),
}

FIGURES["reliability_after"] = (
    FIGURES["reliability"][0],
    (
        f"{FIGURES['reliability'][1][0]} Other lines: recalibrated out of fold.",
        f"{FIGURES['reliability'][1][1]}其余曲线为折外重新校准后的结果。",
    ),
)
FIGURES["ranking_points"] = (
    FIGURES["ranking"][0],
    (
        "Ratings of Bradley and Terry with ties, in Elo's points: 400 points are ten wins to one loss. These cases "
        "determine no intervals: the order may be chance.",
        "含平局的 Bradley-Terry 评级（Elo 分制，400 分即十胜一负）。这些样本不足以得出区间：名次可能出于偶然。",
    ),
)

LABELS: dict[str, Words] = {
    "confidence": ("stated confidence, %", "所述置信度（%）"),
    "accuracy": ("right, % of labelled pairs", "正确率（%，有标注的比较）"),
    "stated": ("as stated", "原始"),
    "temperature": ("by temperature", "温度校准"),
    "isotonic": ("isotonic", "保序校准"),
    "tie_rate": ("ties, %", "平局率（%）"),
    "share": ("%", "%"),
    "decided_accuracy": ("right, % of decided pairs", "正确率（%，分出胜负者）"),
    "weak_rate": ("cases whose ties do not carry over", "平局不传递的样本"),
    "longer_wins": ("longer response wins, %", "较长回答获胜（%）"),
    "times_longer": ("times as long", "长度倍数"),
    "score": ("score", "分值"),
    "judge": ("judge", "裁判"),
    "people": ("people", "人工"),
    "a": ("A wins", "A 胜"),
    "b": ("B wins", "B 胜"),
    "tie": ("tie", "平局"),
    "missing": ("missing", "缺失"),
    "label": ("label", "标注"),
    "verdict": ("verdict", "结论"),
    "first_order": ("A first", "A 在前"),
    "second_order": ("B first", "B 在前"),
    "cost": ("US$ a case", "每样本 US$"),
    "tokens_a_case": ("tokens for a case", "每样本词元"),
}
