"""Names of metrics for people in both languages, as (English, Chinese)."""

from __future__ import annotations

from typing import Final, TypeAlias

TITLES: Final = {
    "llmbar": "LLMBar",
    "judgebench": "JudgeBench",
    "rewardbench": "RewardBench",
    "rewardbench2": "RewardBench 2",
    "rm_bench": "RM-Bench",
    "mt_bench": "MT-Bench",
    "pandalm": "PandaLM",
    "alpaca_eval": "AlpacaEval",
    "arena_hard": "Arena-Hard",
    "auto_j": "Auto-J",
    "faireval": "FairEval",
    "halluqa": "HalluQA",
    "prometheus": "Prometheus",
    "summeval": "SummEval",
    "topical_chat": "Topical-Chat",
    "helpsteer": "HelpSteer",
}
"""Benchmarks by the first part of their metrics' names; they are called so in both languages."""
PARTS: Final[dict[str, tuple[str, str]]] = {
    # What is measured.
    "accuracy": ("accuracy", "准确率"),
    "agreement": ("agreement with people", "与人工一致率"),
    "agreement_rate": ("same verdict in both orders", "两种顺序结论一致率"),
    "agreement_without_ties": ("agreement with people, ties aside", "与人工一致率（不计平局）"),
    "average": ("average accuracy", "平均准确率"),
    "conflict_rate": ("orders that conflict", "两种顺序冲突率"),
    "f1": ("macro F1", "宏平均 F1"),
    "human_agreement": ("agreement among people", "人工之间一致率"),
    "human_agreement_without_ties": ("agreement among people, ties aside", "人工之间一致率（不计平局）"),
    "kappa": ("Cohen's kappa", "Cohen κ 系数"),
    "kendall": ("Kendall's tau", "Kendall τ 相关"),
    "length_controlled_win_rate": ("length-controlled win rate", "长度控制胜率"),
    "mean_accuracy": ("mean accuracy of the orders", "两种顺序平均准确率"),
    "net_vote_accuracy": ("accuracy by net votes", "净票准确率"),
    "non_hallucination_rate": ("answers without hallucination", "无幻觉率"),
    "non_hallucination_rate_strict": (
        "answers without hallucination, invalid ones counted",
        "无幻觉率（无效判定计为幻觉）",
    ),
    "pearson": ("Pearson correlation", "Pearson 相关"),
    "precision": ("macro precision", "宏平均精确率"),
    "preference_accuracy": ("accuracy on preferences", "偏好准确率"),
    "recall": ("macro recall", "宏平均召回率"),
    "score": ("score", "得分"),
    "spearman": ("Spearman correlation", "Spearman 相关"),
    "ties": ("score on ties", "平局得分"),
    "weighted_kappa": ("quadratic kappa", "二次加权 κ"),
    "win_rate": ("win rate", "胜率"),
    # Of what: levels, turns, difficulties.
    "easy": ("easy", "简单"),
    "hard": ("hard", "困难"),
    "normal": ("normal", "普通"),
    "sample": ("over all responses", "样本级"),
    "summary": ("within documents", "摘要级"),
    "system": ("over systems", "系统级"),
    "turn1": ("first turn", "第一轮"),
    "turn2": ("second turn", "第二轮"),
    # Dimensions and attributes.
    "coherence": ("coherence", "连贯性"),
    "complexity": ("complexity", "复杂度"),
    "consistency": ("consistency", "一致性"),
    "correctness": ("correctness", "正确性"),
    "engagingness": ("engagingness", "吸引力"),
    "fluency": ("fluency", "流畅性"),
    "groundedness": ("groundedness", "有据性"),
    "helpfulness": ("helpfulness", "有用性"),
    "naturalness": ("naturalness", "自然度"),
    "overall": ("overall", "总体"),
    "relevance": ("relevance", "相关性"),
    "understandability": ("understandability", "可理解性"),
    "verbosity": ("verbosity", "冗长度"),
    # Sets, sections, categories.
    "adversarial": ("adversarial sets", "对抗集"),
    "chat": ("chat", "闲聊"),
    "chat_hard": ("hard chat", "困难闲聊"),
    "code": ("code", "代码"),
    "coding": ("coding", "编程"),
    "creative_writing": ("creative writing", "创意写作"),
    "exam_questions": ("exam questions", "试题"),
    "factuality": ("factuality", "事实性"),
    "focus": ("focus", "切题"),
    "functional_writing": ("functional writing", "应用写作"),
    "general_communication": ("general communication", "日常交流"),
    "gptinst": ("GPTInst", "GPTInst"),
    "gptout": ("GPTOut", "GPTOut"),
    "hard_prompt": ("hard prompts", "困难提示"),
    "knowledge": ("knowledge", "知识"),
    "manual": ("manual", "人工构造"),
    "math": ("math", "数学"),
    "misleading": ("misleading", "误导"),
    "misleading_hard": ("misleading, hard", "困难误导"),
    "natural": ("natural", "自然"),
    "neighbor": ("neighbor", "近邻"),
    "nlp_tasks": ("NLP tasks", "NLP 任务"),
    "precise_if": ("precise instructions", "精确指令"),
    "reasoning": ("reasoning", "推理"),
    "rewriting": ("rewriting", "改写"),
    "safety": ("safety", "安全"),
    "summarization": ("summarization", "摘要"),
}
"""What the further parts of a name stand for; models and small sets go by their own."""


def benchmark_words(name: str) -> tuple[str, str] | None:
    """Return what a benchmark's metric is called in both languages, none if it is no benchmark's."""
    head, _, rest = name.partition("/")
    if head not in TITLES or not rest:
        return None
    parts = [PARTS.get(part, (part, part)) for part in rest.split("/")]
    english, chinese = ", ".join(part[0] for part in parts), "，".join(part[1] for part in parts)
    return f"{TITLES[head]}: {english}", f"{TITLES[head]}：{chinese}"


Words: TypeAlias = tuple[str, str]

METRICS: dict[str, Words] = {
    "agreement/accuracy": ("Accuracy (agreement with labels)", "准确率（与标注一致）"),
    "agreement/accuracy_decided": ("Accuracy among decided pairs", "分出胜负者的准确率"),
    "agreement/accuracy_per_order": ("Agreement, mean of the orders", "与标注一致（两种顺序平均）"),
    "agreement/accuracy_first_order": ("Agreement in the case's own order", "与标注一致（原顺序）"),
    "agreement/accuracy_second_order": ("Agreement in the swapped order", "与标注一致（交换顺序）"),
    "agreement/accuracy_both_orders": ("Right in both orders", "两种顺序都正确"),
    "agreement/kappa": ("Cohen's kappa", "Cohen κ 系数"),
    "agreement/kappa_weighted": ("Kappa, a tie half wrong", "加权 κ（平局算半错）"),
    "agreement/kappa_quadratic": ("Kappa of scores and grades, quadratic", "分数与评分的二次加权 κ"),
    "agreement/ac1": ("Gwet's AC1", "Gwet AC1 系数"),
    "agreement/pearson_within": ("Pearson correlation within cases", "样本内 Pearson 相关"),
    "agreement/spearman_within": ("Spearman correlation within cases", "样本内 Spearman 相关"),
    "agreement/kendall_within": ("Kendall's tau within cases", "样本内 Kendall τ 相关"),
    "human/alpha": ("Krippendorff's alpha among people", "标注者间 Krippendorff α"),
    "human/ceiling": ("A person's agreement with the others", "单个标注者与其他人的一致"),
    "human/judge": ("The judge's agreement with the same others", "裁判与同一批人的一致"),
    "human/gap": ("Judge less person", "裁判减去标注者"),
    "human/advantage": ("Advantage over single people", "相对单个标注者的优势"),
    "human/alt_test": ("People the judge could stand in for", "可被裁判替代的标注者比例"),
    "self/own_rate": ("Own family's response wins", "同族模型的回答获胜"),
    "self/preference": ("Own-family preference at equal label", "相同标注下对同族模型的偏好"),
    "agreement/pearson": ("Pearson correlation", "Pearson 相关"),
    "agreement/spearman": ("Spearman correlation", "Spearman 相关"),
    "agreement/kendall": ("Kendall's tau", "Kendall τ 相关"),
    "position/consistency": ("Same verdict in both orders", "两种顺序结论一致"),
    "position/first_rate": ("First shown wins", "先出现者获胜"),
    "position/repeat_consistency": ("Same answer twice in one order", "同一顺序重复评判一致"),
    "position/swap_consistency": ("Same answer in both orders, sample by sample", "两种顺序逐次一致"),
    "position/order_effect": ("What the order adds to noise", "顺序在噪声之外的影响"),
    "position/identical_preference": ("Preference between identical responses", "对相同回答的偏好"),
    "length/longer_rate": ("Longer response wins", "较长者获胜"),
    "length/slope": ("Log odds for a standard deviation of length", "长度每增一个标准差的对数几率"),
    "length/slope_at_label": ("Length effect at equal label", "相同标注下的长度效应"),
    "length/win_rate": ("Win rate of A, ties half", "A 的胜率（平局计半）"),
    "length/controlled_win_rate": ("Win rate of A at equal length", "等长时 A 的胜率"),
    "length/score_slope": ("Score gained by tenfold length", "长度十倍带来的加分"),
    "length/score_slope_at_grade": ("The same at equal grade", "相同评分下的长度加分"),
    "tie_rate": ("Ties", "平局率"),
    "tie_rate/judged": ("Ties said by the judge", "裁判判定的平局"),
    "tie_rate/swap_disagreement": ("Ties made by disagreeing orders", "顺序不一致造成的平局"),
    "tie_rate/threshold": ("Ties under the threshold", "阈值造成的平局"),
    "tie_rate/equal_scores": ("Ties made by equal scores", "分数相同造成的平局"),
    "tie_rate/split": ("Ties made by a split of votes or samples", "意见分裂（评委或重复评判）造成的平局"),
    "win_rate/a": ("Response A wins", "A 获胜"),
    "win_rate/b": ("Response B wins", "B 获胜"),
    "conflict/rate": ("Cases with a cycle", "存在循环的样本"),
    "conflict/nodes": ("Responses in cycles", "循环中的回答数"),
    "conflict/triads": ("Cyclic triples", "循环三元组数"),
    "conflict/chance_rate": ("Cycles expected by chance", "随机情况下的循环率"),
    "conflict/ratio": ("Cycles against chance", "循环率与随机之比"),
    "between/contradiction": ("Scores against comparisons", "评分与比较相悖率"),
    "conflict/zeta": ("Consistence (zeta)", "一致性系数 ζ"),
    "conflict/reversals": ("Verdicts to reverse to end all cycles", "消除全部循环需反转的判定数"),
    "conflict/condorcet": ("Cycles that no criterion has", "仅由汇总造成的循环"),
    "criteria/overall_disagreement": ("Overall winner against weighted criteria", "总体胜者与加权准则不一致率"),
    "conflict/weak_rate": ("Intransitive ties", "平局不传递率"),
    "calibration/ece": ("Calibration error", "校准误差"),
    "calibration/brier": ("Brier score", "Brier 分数"),
    "calibration/slope": ("Calibration slope", "校准斜率"),
    "calibration/ece_temperature": ("Calibration error after temperature", "温度校准后的校准误差"),
    "calibration/brier_temperature": ("Brier score after temperature", "温度校准后的 Brier 分数"),
    "calibration/ece_isotonic": ("Calibration error after isotonic", "保序校准后的校准误差"),
    "calibration/brier_isotonic": ("Brier score after isotonic", "保序校准后的 Brier 分数"),
    "cost/per_case": ("Cost of a case, US$", "每样本费用（US$）"),
    "latency/per_case": ("Latency of a case, s", "每样本耗时（秒）"),
    "score/mean": ("Mean score", "平均分"),
    "score/distinct": ("Different scores used", "使用过的不同分值"),
    "samples/spread": ("Spread of repeats", "重复评判的离散程度"),
    "samples/flip_rate": ("Two repeats differ", "两次重复评判不同的概率"),
    "missing/one_pass": ("Verdicts that rest on one order", "仅依据一种顺序的结论"),
    "third_pass/settled_rate": ("Disagreements a third judgment settles", "第三次评判解决的分歧"),
    "weighted/rate": ("Answers weighted by probability", "按概率加权的回答"),
    "weighted/mass": ("Probability seen on the scale", "落在量表上的概率"),
    "weighted/open": ("Probability shared out evenly", "平均分配的概率"),
    "samples/unanimous": ("Same answer every time", "每次回答一致"),
    "ranking/separated": ("Pairs of systems told apart", "可区分的系统对"),
    "jnd/noise": ("Noticeable difference, from noise", "最小可觉差（由噪声）"),
    "jnd/labels": ("Noticeable difference, from labels", "最小可觉差（由标注）"),
    "corrected/win_rate/a": ("Response A wins, corrected by labels", "A 获胜（按标注修正）"),
    "corrected/win_rate/b": ("Response B wins, corrected by labels", "B 获胜（按标注修正）"),
    "corrected/tie_rate": ("Ties, corrected by labels", "平局率（按标注修正）"),
    "corrected/score_mean": ("Mean grade, corrected by labels", "平均评分（按标注修正）"),
    "corrected/rogan_gladen": ("Upper level, errors taken out", "上级比例（去除误差）"),
    "corrected/rogan_gladen/a": ("Response A wins, errors taken out", "A 获胜（去除误差）"),
    "corrected/rogan_gladen/b": ("Response B wins, errors taken out", "B 获胜（去除误差）"),
    "variance/case": ("Variance between cases", "样本间方差占比"),
    "variance/order": ("Variance by order", "顺序方差占比"),
    "variance/criterion": ("Variance by criterion", "准则方差占比"),
    "variance/judge": ("Variance by judge", "裁判方差占比"),
    "variance/sample": ("Variance between repeats", "重复方差占比"),
    "panel/alpha": ("Krippendorff's alpha of the judges", "评委间 Krippendorff α"),
    "panel/unanimous": ("Judges of one mind", "评委一致"),
    "missing/unparseable": ("Unparseable answers", "无法解析的回答"),
    "missing/refused": ("Refused answers", "拒绝回答"),
    "missing/failed": ("Failed calls", "调用失败"),
    "missing/budget": ("Calls the budget kept from being made", "因预算未发出的调用"),
}

OF_ONE: dict[str, Words] = {
    "ranking/rating/": ("rating", "评级分"),
    "ranking/win_rate/": ("win rate", "胜率"),
    "conflict/rate/": ("cases with a cycle", "存在循环的样本"),
}
"""Metrics of one system or criterion, whose name follows."""


def metric_words(name: str) -> Words:
    """Return a metric's name for people, or the name itself; one of a panel's judges goes by the judge's name too."""
    if name.startswith("judge/"):
        _, judge, own = name.split("/", 2)
        english, chinese = metric_words(own)
        return f"{judge}: {english}", f"{judge}：{chinese}"
    for part, (english, chinese) in OF_ONE.items():
        if name.startswith(part):
            return f"{name.removeprefix(part)}: {english}", f"{name.removeprefix(part)}：{chinese}"
    return METRICS.get(name) or benchmark_words(name) or (name, name)
