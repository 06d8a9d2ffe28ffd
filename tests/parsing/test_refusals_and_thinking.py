"""Refusals are told from answers, conservatively; thinking is left out."""

from __future__ import annotations

import pytest

from evalkit.parsing import drop_thinking, is_refusal


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that request.",
        "I’m sorry, but I can’t help with that.",
        "I am sorry, I cannot comply.",
        "Sorry, I can't evaluate these responses.",
        "I cannot provide an assessment of this content.",
        "I can't help with this.",
        "I won't engage with this material.",
        "I must decline to compare these responses.",
        "I apologize, but I am unable to judge harmful content.",
        "Unfortunately, I cannot rate this response.",
        "As an AI language model, I cannot participate in this.",
        "I'm not able to help with that.",
        "抱歉，我无法协助完成这个请求。",
        "很抱歉，我不能评估这些内容。",
        "对不起，我无法提供帮助。",
        "作为一个人工智能语言模型，我无法对此进行评价。",
        "我无法回答这个问题。",
        "I cannot rewrite this text.",
        "抱歉，我不能改写这段文字。",
    ],
)
def test_refusals(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Response A is better.",
        "Therefore, I cannot choose between Assistant 1 and Assistant 2 as both of their answers are incorrect.",
        "I cannot choose between them.",
        "Response A refuses: 'I'm sorry, but I can't assist with that.' That is unhelpful.",
        "Response B says sorry and cannot help.",
        "I'm sorry to say that both responses are poor.",
        "The assistant cannot help, so B wins.",
        "回答A说“抱歉，我无法协助”，因此回答B更好。",
        "两份回答都无法使用。",
        "error",
    ],
)
def test_what_only_sounds_like_a_refusal(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "b\n\nd"),
        ("<THINKING>\na\n</THINKING>\nb", "\nb"),
        ("a</think>b", "b"),
        ("<think>never ends", ""),
        ("  <reasoning> never ends [[A]]", ""),
        ("It starts with <think> and goes on. [[A]]", "It starts with <think> and goes on. [[A]]"),
        ("no thinking", "no thinking"),
        ("", ""),
    ],
)
def test_thinking_is_dropped(text: str, left: str) -> None:
    assert drop_thinking(text) == left
