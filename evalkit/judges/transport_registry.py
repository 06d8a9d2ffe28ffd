"""The registry of judge transports; other packages register theirs in the entry-point
group `evalkit.judges`.
"""

from types import MappingProxyType

from evalkit.config import SIMULATED
from evalkit.judges.setup import LOCAL

TRANSPORTS = MappingProxyType(
    {
        "litellm": "evalkit.judges.litellm_transport:LiteLLMTransport",
        "direct": "evalkit.judges.direct_transport:DirectTransport",
    }
)
"""The transports by the value of `judge.transport`; each is constructed with a `JudgeConfig` and a
`RunnerConfig`."""
ENDPOINTS = MappingProxyType(
    dict.fromkeys(
        ("litellm", "direct"), "evalkit.judges.endpoint_transport:EndpointTransport"
    )
)
"""The transports for endpoints other than chat completions."""
DECIDERS = MappingProxyType(
    {
        "litellm": "evalkit.judges.decision_transport:DecisionTransport",
        "direct": "evalkit.judges.endpoint_transport:EndpointTransport",
    }
)
"""The transports for the endpoints of decision models."""
IN_PROCESS = MappingProxyType(
    {
        SIMULATED: "evalkit.judges.simulated_transport:SimulatedTransport",
        LOCAL: "evalkit.judges.smollm2_transport:SmolLM2Transport",
    }
)
"""The transports of models in this process, by the prefix of `judge.model`."""
