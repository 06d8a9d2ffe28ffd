"""Words of the page in both languages, as (English, Chinese)."""

from __future__ import annotations

from evalkit.report.metric_names import Words

FLAGS: dict[str, Words] = {
    "all": ("All", "全部"),
    "mismatch": ("Differs from label", "与标注不同"),
    "flip": ("Flips with order", "换序即变"),
    "disagreement": ("Repeats disagree", "重复评判不一致"),
    "tie": ("Tie", "平局"),
    "cycle": ("Contradicts itself", "自相矛盾"),
    "missing": ("Missing", "缺失"),
}

TOKENS = {"prompt": "提示", "completion": "输出"}

PAGE: dict[str, Words] = {
    "report": ("Judge report", "裁判评测报告"),
    "findings": ("What it found", "结论"),
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
    "short": (
        "To keep this page small, {whole} of {total} cases stand here with all their texts: those that a filter names "
        "first, in turns, then the others in order. The texts of the other {short} are shortened, and their judges' "
        "answers and prompts left out; cases.jsonl and judgments.jsonl beside this page hold everything.",
        "为控制页面大小，{total} 个样本中有 {whole} 个附有全部文本：先轮流取各筛选条件下的样本，再按顺序取其余样本。"
        "另外 {short} 个样本的文本已截短，且不含裁判输出与提示；完整内容见同目录下的 cases.jsonl 与 judgments.jsonl。",
    ),
    "left_out": (
        "{left_out} further cases, to which no filter but All applies first, are not listed.",
        "另有 {left_out} 个样本未列出（先略去仅属“全部”的样本）。",
    ),
    "unlike": (
        "{unlike} prompts are not shown: rendered again from config and case they are not what was sent, since a "
        "template has changed or an answer that the run does not keep stood in them.",
        "{unlike} 条提示未显示：按配置与样本重新生成的内容与当时发送的不一致"
        "（模板已改变，或其中含有本次运行未保存的回答）。",
    ),
    "figures": ("Figures", "图表"),
    "dark": ("Dark", "深色"),
    "light": ("Light", "浅色"),
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
    "imported": ("Imported", "导入"),
    "imported_text": (
        "{judgments:,} judgments from {source} ({format}); no judge was called",
        "从 {source}（{format}）导入 {judgments:,} 条判定；未调用裁判",
    ),
    "reread_text": (
        "; {texts:,} texts were read again, of which {differences:,} say something else than the file",
        "；重新读取 {texts:,} 条文本，其中 {differences:,} 条与文件所载不同",
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
    "grade": ("grade", "标注评分"),
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
    "asked": ("Prompt as sent", "发送的提示"),
    "first_ask": (
        "The first ask; {} in all. What was asked afterwards hangs on answers that the run does not keep.",
        "此为首次提问，共 {} 次；其后的提问取决于本次运行未保存的回答。",
    ),
    "key": ("content key", "内容键"),
    "arbiter": ("third judgment", "第三次评判"),
    "cut": (
        "The texts of this case are shortened here; cases.jsonl and judgments.jsonl hold them whole.",
        "此样本的文本在此已截短；完整内容见 cases.jsonl 与 judgments.jsonl。",
    ),
    "only_listed": ("texts shortened", "文本已截短"),
    "read_by": ("read by", "读取方式"),
    "shown": ("{} of {} cases shown", "显示 {} / {} 个样本"),
    "nothing": ("No case fits this filter.", "没有符合条件的样本。"),
    "judged": ("judged", "直接判定"),
    "threshold": ("under the tie threshold", "低于平局阈值"),
    "swap_disagreement": ("the orders disagree", "两种顺序不一致"),
    "forced": ("forced", "强制判定"),
    "split": ("split vote", "意见分裂"),
    "equal_scores": ("equal scores", "分数相同"),
    "votes": ("votes", "投票"),
    "missing": ("no answer", "无回答"),
    "ok": ("ok", "正常"),
    "repaired": ("repaired", "已修复"),
    "unparseable": ("unparseable", "无法解析"),
    "refused": ("refused", "拒绝回答"),
    "failed": ("failed", "调用失败"),
}

SWEEP: dict[str, Words] = {
    "report": ("Sweep report", "扫描报告"),
    "jobs": ("Configurations", "配置数"),
    "by": ("Ranked by", "排名依据"),
    "data": ("Data", "数据"),
    "started": ("Started", "开始"),
    "spent": ("Paid in this sweep", "本次花费"),
    "leaderboard": ("Leaderboard", "排行榜"),
    "leaderboard_note": (
        "Configurations that share a letter do not differ significantly (Holm over all pairs, {level}), which does not "
        "show that they are equal. ★: better than chance, and no other is shown to agree as well (within {margin}) for "
        "less. {level} intervals, with cases resampled; those of ranks are simultaneous. Click a heading to sort, a "
        "name to open the job's own report.",
        "字母相同的配置差异不显著（对全部配对做 Holm 校正，{level}），但这不表示它们相同。★：优于随机，且没有其他配置"
        "被证明能以更低费用达到同等一致性（容差 {margin}）。{level} 区间（按样本重抽样），名次区间为联合区间。"
        "点击表头排序；点击名称打开该任务的报告。",
    ),
    "rank": ("Rank", "名次"),
    "configuration": ("Configuration", "配置"),
    "letters": ("Group", "分组"),
    "same": ("The same for every job", "各任务相同的设置"),
    "metrics": ("Metric by metric", "逐项指标"),
    "beyond": (
        "The figures show the first {most} of {total} configurations; leaderboard.csv beside this page has all.",
        "图中仅显示前 {most} 个（共 {total} 个）配置；同目录下的 leaderboard.csv 含全部配置。",
    ),
    "findings": PAGE["findings"],
    "figures": PAGE["figures"],
    "dark": PAGE["dark"],
    "light": PAGE["light"],
    "language": PAGE["language"],
}
