"""Names of the metrics that benchmarks were published with, for people in both languages, as (English, Chinese)."""

from __future__ import annotations

from typing import Final

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
