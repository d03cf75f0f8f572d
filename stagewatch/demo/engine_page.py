"""What one replica shows on `/metrics`: vLLM's page, from what the simulated engine did.

Every value is observed once, in the order of the spans, so that counts and sums are equal to the
spans' to the last bit, as they are on a real vLLM. A prefill engine observes zeros for decode time
and time per output token; requests whose user hung up vanish from all but the first-token family.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stagewatch.demo.page_families import FAMILIES, Family
from stagewatch.demo.page_process import HttpFamilies, process_lines
from stagewatch.demo.page_text import Histogram, cumulated, head, number

__all__ = ["CONTENT_TYPE", "EnginePage", "Finished", "Levels"]

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What stands now, as opposed to what has happened."""

    running: int
    waiting: int
    deferred: int
    kv_usage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A request that reached its end in one engine; exactly what its span says."""

    e2e_s: float
    queue_s: float
    prefill_s: float
    decode_s: float
    inference_s: float
    prompt_tokens: int
    computed_tokens: int
    output_tokens: int
    max_tokens: int
    preemptions: int
    finish_reason: str


class EnginePage:
    """The page of one replica. `created_s` is when the engine's process came up (Unix)."""

    def __init__(self, *, model: str, created_s: float, kv_blocks: int, block_tokens: int) -> None:
        self._created_s = created_s
        self._series = [_series(family, model, created_s) for family in FAMILIES]
        self._by_name = {series.name: series for series in self._series}
        self._config = _config(kv_blocks, block_tokens)
        self._http = HttpFamilies(created_s)
        self._cpu_s = 9.5

    def histogram(self, name: str) -> Histogram:
        """A histogram by its vLLM name, without the `vllm:`."""
        found = self._by_name[f"vllm:{name}"].histogram
        if found is None:
            raise KeyError(name)
        return found

    def value(self, name: str, variant: str = "") -> float:
        """A counter or gauge by its vLLM name, without the `vllm:`."""
        return self._by_name[f"vllm:{name}"].values[variant]

    def _add(self, name: str, count: float, variant: str = "") -> None:
        self._by_name[f"vllm:{name}"].values[variant] += count

    def looked_up(self, *, prompt_tokens: int, cached_tokens: int, remote_tokens: int) -> None:
        """A request was admitted: what of its prompt was already in a cache."""
        self._add("prefix_cache_queries_total", prompt_tokens)
        self._add("prefix_cache_hits_total", cached_tokens)
        if remote_tokens:
            self._add("external_prefix_cache_queries_total", prompt_tokens - cached_tokens)
            self._add("external_prefix_cache_hits_total", remote_tokens)
        self._add("prompt_tokens_cached_by_source_total", cached_tokens, "device")
        self._add("prompt_tokens_cached_by_source_total", remote_tokens, "p2p")

    def stepped(self, *, prompt_tokens: int, new_tokens: int) -> None:
        """A step ended."""
        self.histogram("iteration_tokens_total").observe(prompt_tokens + new_tokens)
        self._add("generation_tokens_total", new_tokens)
        self._cpu_s += 0.003

    def prefilled(self, *, prompt_tokens: int, cached_tokens: int, remote_tokens: int) -> None:
        """A prompt is whole: its tokens by where they came from."""
        self._add("prompt_tokens_total", prompt_tokens)
        self._add("prompt_tokens_cached_total", cached_tokens + remote_tokens)
        computed = prompt_tokens - cached_tokens - remote_tokens
        self._add("prompt_tokens_by_source_total", computed, "local_compute")
        self._add("prompt_tokens_by_source_total", cached_tokens, "local_cache_hit")
        self._add("prompt_tokens_by_source_total", remote_tokens, "external_kv_transfer")

    def gaps(self, seconds: float, count: int) -> None:
        self.histogram("inter_token_latency_seconds").observe(seconds, count)

    def preempted(self) -> None:
        self._add("num_preemptions_total", 1)

    def first_token(self, ttft_s: float) -> None:
        self.histogram("time_to_first_token_seconds").observe(ttft_s)

    def finished(self, request: Finished) -> None:
        """A request ended by itself: it enters every family of requests at once."""
        gaps = request.output_tokens - 1
        observed: Iterable[tuple[str, float]] = (
            ("request_prompt_tokens", request.prompt_tokens),
            ("request_generation_tokens", request.output_tokens),
            ("request_max_num_generation_tokens", request.output_tokens),
            ("request_params_n", 1),
            ("request_params_max_tokens", request.max_tokens),
            ("request_time_per_output_token_seconds", request.decode_s / gaps if gaps else 0.0),
            ("e2e_request_latency_seconds", request.e2e_s),
            ("request_queue_time_seconds", request.queue_s),
            ("request_inference_time_seconds", request.inference_s),
            ("request_prefill_time_seconds", request.prefill_s),
            ("request_decode_time_seconds", request.decode_s),
            ("request_num_preemptions", request.preemptions),
            ("request_prefill_kv_computed_tokens", request.computed_tokens),
        )
        for name, value in observed:
            self.histogram(name).observe(value)
        self._add("request_success_total", 1, request.finish_reason)

    def answered(self, *, status: str, seconds: float, at_s: float, prompt_tokens: int) -> None:
        """The HTTP server's own view: also of the refused and of those that hung up."""
        self._http.answered(status, seconds, at_s, 350 + 4 * prompt_tokens)

    def render(self, levels: Levels) -> str:
        """The page as text."""
        self._set("num_requests_running", levels.running)
        self._set("num_requests_waiting", levels.waiting + levels.deferred)
        self._set("num_requests_waiting_by_reason", levels.waiting, "capacity")
        self._set("num_requests_waiting_by_reason", levels.deferred, "deferred")
        self._set("kv_cache_usage_perc", levels.kv_usage)
        lines = process_lines(self._created_s, self._cpu_s)
        for series in self._series:
            lines.extend(series.lines())
        lines.append(self._config)
        lines.extend(self._http.lines())
        return "\n".join(lines) + "\n"

    def _set(self, name: str, value: float, variant: str = "") -> None:
        self._by_name[f"vllm:{name}"].values[variant] = value


class _Series:
    """One family with its values; text that never changes is made once."""

    def __init__(self, family: Family, own: str, created_s: float) -> None:
        self.name = family.name
        self.histogram = Histogram(family.edges) if family.edges else None
        self.values = dict.fromkeys(family.variants, 1.0 if "sleep" in family.name else 0.0)
        if "sleep" in family.name:
            self.values.update(weights_offloaded=0.0, discard_all=0.0)
        self._head = head(family.name, family.kind, family.help)
        if self.histogram is None:
            labels = {v: _labels(own, family.label, v, engine=family.engine) for v in self.values}
            self._prefixes = [f"{family.name}{labels[variant]} " for variant in self.values]
        else:
            self._prefixes = _bucket_prefixes(family.name, own, family.edges)
            labels = {"": _labels(own, "", "", engine=True)}
        self._tail: list[str] = []
        if family.kind != "gauge":
            stem = family.name.removesuffix("_total") if family.kind == "counter" else family.name
            made = [f"{stem}_created{text} {number(created_s)}" for text in labels.values()]
            self._tail = [*head(f"{stem}_created", "gauge", family.help), *made]

    def lines(self) -> Iterable[str]:
        yield from self._head
        values = cumulated(self.histogram) if self.histogram else self.values.values()
        for prefix, value in zip(self._prefixes, values, strict=True):
            yield prefix + number(value)
        yield from self._tail


def _series(family: Family, model: str, created_s: float) -> _Series:
    return _Series(family, f'model_name="{model}"', created_s)


def _labels(own: str, label: str, value: str, *, engine: bool) -> str:
    """Labels in the order of their names, as `prometheus_client` writes them."""
    parts = [own, *([f'{label}="{value}"'] if label else []), *(['engine="0"'] if engine else [])]
    return "{" + ",".join(sorted(parts)) + "}"


def _bucket_prefixes(name: str, own: str, edges: Sequence[float]) -> list[str]:
    labels = _labels(own, "", "", engine=True)
    buckets = [f'{name}_bucket{{engine="0",le="{edge}",{own}}} ' for edge in (*edges, "+Inf")]
    return [*buckets, f"{name}_count{labels} ", f"{name}_sum{labels} "]


def _config(kv_blocks: int, block_tokens: int) -> str:
    name = "vllm:cache_config_info"
    labels = (
        f'block_size="{block_tokens}",cache_dtype="auto",enable_prefix_caching="True",engine="0",'
        f'gpu_memory_utilization="0.92",kv_cache_size_tokens="{kv_blocks * block_tokens}",'
        f'num_gpu_blocks="{kv_blocks}",num_gpu_blocks_override="None"'
    )
    text = "Information of the LLMEngine CacheConfig"
    return "\n".join([*head(name, "gauge", text), f"{name}{{{labels}}} 1.0"])
