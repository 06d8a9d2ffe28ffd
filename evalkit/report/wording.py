"""Words of the report in both languages, as (English, Chinese)."""

from __future__ import annotations

from typing import TypeAlias

Words: TypeAlias = tuple[str, str]

METRICS: dict[str, Words] = {
    "agreement/accuracy": ("Agreement with labels", "与人工标注一致"),
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
    "length/slope_at_label": ("The same at equal label", "相同标注下的长度效应"),
    "length/win_rate": ("Win rate of A, ties half", "A 的胜率（平局计半）"),
    "length/controlled_win_rate": ("Win rate of A at equal length", "等长时 A 的胜率"),
    "length/score_slope": ("Score gained by tenfold length", "长度十倍带来的加分"),
    "length/score_slope_at_grade": ("The same at equal grade", "相同评分下的长度加分"),
    "tie_rate": ("Ties", "平局率"),
    "tie_rate/judged": ("Ties said by the judge", "裁判判定的平局"),
    "tie_rate/swap_disagreement": ("Ties made by disagreeing orders", "顺序不一致造成的平局"),
    "tie_rate/threshold": ("Ties under the threshold", "阈值造成的平局"),
    "tie_rate/split": ("Ties made by a split vote", "评委意见分裂造成的平局"),
    "win_rate/a": ("Response A wins", "A 获胜"),
    "win_rate/b": ("Response B wins", "B 获胜"),
    "conflict/rate": ("Cases with a cycle", "存在循环的样本"),
    "conflict/nodes": ("Responses in cycles", "循环中的回答数"),
    "conflict/triads": ("Cyclic triples", "循环三元组数"),
    "conflict/chance_rate": ("Cycles expected by chance", "随机情况下的循环率"),
    "conflict/ratio": ("Cycles against chance", "循环率与随机之比"),
    "conflict/zeta": ("Consistence (zeta)", "一致性系数 ζ"),
    "conflict/reversals": ("Verdicts to reverse to end all cycles", "消除全部循环需反转的判定数"),
    "conflict/condorcet": ("Cycles that no criterion has", "仅由汇总造成的循环"),
    "conflict/weak_rate": ("Intransitive ties", "平局不传递率"),
    "calibration/ece": ("Calibration error", "校准误差"),
    "calibration/brier": ("Brier score", "Brier 分数"),
    "calibration/slope": ("Calibration slope", "校准斜率"),
    "calibration/ece_temperature": ("Calibration error after temperature", "温度校准后的校准误差"),
    "calibration/brier_temperature": ("Brier score after temperature", "温度校准后的 Brier 分数"),
    "calibration/ece_isotonic": ("Calibration error after isotonic", "保序校准后的校准误差"),
    "calibration/brier_isotonic": ("Brier score after isotonic", "保序校准后的 Brier 分数"),
    "score/mean": ("Mean score", "平均分"),
    "score/distinct": ("Different scores used", "使用过的不同分值"),
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

FLAGS: dict[str, Words] = {
    "all": ("All", "全部"),
    "mismatch": ("Differs from label", "与标注不同"),
    "flip": ("Flips with order", "换序即变"),
    "disagreement": ("Repeats disagree", "重复评判不一致"),
    "tie": ("Tie", "平局"),
    "cycle": ("Contradicts itself", "自相矛盾"),
    "missing": ("Missing", "缺失"),
}

PAGE: dict[str, Words] = {
    "report": ("Judge report", "裁判评测报告"),
    "findings": ("What it found", "结论"),
    "plot": ("Main numbers with their intervals", "主要指标及区间"),
    "plot_note": (
        "Dot: value. Thick line: {level} interval, cases resampled. Thin line: if every missing answer had gone "
        "against or for it. Dashed: chance.",
        "圆点：数值；粗线：{level} 区间（按样本重抽样）；细线：缺失回答全部不利或全部有利时的取值；虚线：随机水平。",
    ),
    "metrics": ("All metrics", "全部指标"),
    "metric": ("Metric", "指标"),
    "value": ("Value", "数值"),
    "interval": ("{level} interval", "{level} 区间"),
    "count": ("n", "n"),
    "missing": ("Missing", "缺失"),
    "worst": ("Worst case", "最坏情形"),
    "note": ("Note", "说明"),
    "undetermined": ("Not determined by this run", "本次运行无法确定"),
    "cases": ("Cases", "样本"),
    "filter": ("Show", "筛选"),
    "search": ("Search the texts", "搜索文本"),
    "cut": (
        "Long texts are shortened here and {left} cases are left out, to keep this page small; judgments.jsonl and the "
        "dataset hold everything.",
        "为控制页面大小，较长文本已截断，并省略了 {left} 个样本；完整内容见 judgments.jsonl 与数据集。",
    ),
    "script": ("Cases are shown by a script, which is off here.", "样本列表需要启用脚本。"),
    "config": ("Configuration", "配置"),
    "manifest": ("Where it came from", "来源"),
    "started": ("Started", "开始"),
    "cost": ("Cost", "费用"),
    "calls": ("Calls", "调用"),
    "calls_text": (
        "{planned:,} planned, {stored:,} from the store, {sent:,} sent, {failed:,} failed",
        "计划 {planned:,}，来自缓存 {stored:,}，发送 {sent:,}，失败 {failed:,}",
    ),
    "tokens": ("Tokens", "词元"),
    "unknown": ("not known", "未知"),
    "language": ("中文", "English"),
}

SCRIPT: dict[str, Words] = {
    "prompt": ("Prompt", "提示"),
    "context": ("Context", "上下文"),
    "reference": ("Reference", "参考答案"),
    "cycles": ("Contradicts itself", "自相矛盾"),
    "response": ("Response", "回答"),
    "grade": ("people's grade", "人工评分"),
    "verdict": ("Verdict", "结论"),
    "label": ("label", "标注"),
    "wins": ("{} wins", "{} 获胜"),
    "tie": ("tie", "平局"),
    "none": ("missing", "缺失"),
    "score": ("score {}", "得分 {}"),
    "margin": ("margin", "分差"),
    "confidence": ("confidence", "置信度"),
    "pass": ("Shown {}", "呈现顺序 {}"),
    "sample": ("sample", "样本次序"),
    "raw": ("Raw completion", "原始输出"),
    "thinking": ("Thinking", "思考过程"),
    "error": ("Not read", "未能读取"),
    "stored": ("from the store", "来自缓存"),
    "read_by": ("read by", "读取方式"),
    "shown": ("{} of {} cases shown", "显示 {} / {} 个样本"),
    "nothing": ("No case fits this filter.", "没有符合条件的样本。"),
    "judged": ("judged", "直接判定"),
    "threshold": ("under the tie threshold", "低于平局阈值"),
    "swap_disagreement": ("the orders disagree", "两种顺序不一致"),
    "forced": ("forced", "强制判定"),
    "split": ("split vote", "意见分裂"),
    "votes": ("votes", "投票"),
    "missing": ("no answer", "无回答"),
    "ok": ("ok", "正常"),
    "repaired": ("repaired", "已修复"),
    "unparseable": ("unparseable", "无法解析"),
    "refused": ("refused", "拒绝回答"),
    "failed": ("failed", "调用失败"),
}


def metric_words(name: str) -> Words:
    """Return a metric's name for people, or the name itself; one of a panel's judges goes by the judge's name too."""
    if name.startswith("judge/"):
        _, judge, own = name.split("/", 2)
        english, chinese = metric_words(own)
        return f"{judge}: {english}", f"{judge}：{chinese}"
    for part, (english, chinese) in OF_ONE.items():
        if name.startswith(part):
            return f"{name.removeprefix(part)}: {english}", f"{name.removeprefix(part)}：{chinese}"
    return METRICS.get(name, (name, name))
