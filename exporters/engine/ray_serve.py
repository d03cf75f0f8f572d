"""Ray Serve LLM: vLLM's families with `ray_` before, on the page of a node's Ray agent."""

from dataclasses import replace

from exporters.engine.vllm import VLLM

__all__ = ["RAY_SERVE"]

RAY_SERVE = replace(
    VLLM,
    title="Ray Serve LLM",
    prefixes=("ray_vllm:", "ray_vllm_"),  # since vLLM 0.11.1 every odd character is a `_`
    switch="`engine_kwargs: {disable_log_stats: false}`; the page is the Ray node's metrics port "
    "(`ray start --metrics-export-port 8080`, page `/metrics`).",
    lacks="Ray's own time to first token. Serve replicas of one node are added up.",
)
