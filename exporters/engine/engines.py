"""All engines whose pages we know; where several are on one page, the first one's words count."""

from exporters.engine.dynamo import DYNAMO_FRONTEND, DYNAMO_WORKER
from exporters.engine.litellm import LITELLM
from exporters.engine.llamacpp import LLAMACPP
from exporters.engine.lmdeploy import LMDEPLOY
from exporters.engine.ray_serve import RAY_SERVE
from exporters.engine.sglang import SGLANG
from exporters.engine.table import wanted
from exporters.engine.tensorrt_llm import TENSORRT_LLM, TENSORRT_LLM_BARE
from exporters.engine.tgi import TGI
from exporters.engine.triton import TRITON
from exporters.engine.vllm import VLLM

__all__ = ["ENGINES", "WANTED"]

ENGINES = (
    VLLM,
    RAY_SERVE,
    SGLANG,
    TGI,
    TENSORRT_LLM,
    TENSORRT_LLM_BARE,
    TRITON,
    LMDEPLOY,
    LLAMACPP,
    DYNAMO_WORKER,
    DYNAMO_FRONTEND,
    LITELLM,
)

WANTED = wanted(ENGINES)
"""The name of every sample that any table reads."""
