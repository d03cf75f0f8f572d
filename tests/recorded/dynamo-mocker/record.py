"""Replays invented requests through NVIDIA Dynamo's offline mocker, and keeps what it says.

Needs an interpreter with ai-dynamo-runtime 1.6.1 and numpy; writes requests.npz and splits.json.
"""

import json
import pathlib
import sys

import dynamo._core as dynamo
import numpy as np

HERE = pathlib.Path(__file__).parent
BLOCK, DECODE_BLOCKS, PREFILL_BLOCKS, REQUESTS = 64, 2048, 512, 12_000
OBSERVED = (4, 3)
OTHERS = ((3, 3), (5, 3), (4, 4), (3, 4), (5, 4), (4, 2), (5, 1))
PROMISE_S = (0.6, 0.028)
FIELDS = {
    "start": "prefill_admit_ms",
    "prefilled": "source_held_ms",
    "joined": "decode_admit_ms",
    "first": "first_token_ms",
    "last": "last_token_ms",
}


def requests(seed=20261130):
    """Ten minutes of a busy hour: bursts of ten seconds, prompts of two kinds, answers of any length."""
    dice = np.random.default_rng(seed)
    rate = np.repeat(np.exp(dice.normal(0, 0.35, 60)), 10)
    at_s = np.sort(dice.choice(600, REQUESTS, p=rate / rate.sum()) + dice.random(REQUESTS))
    code = dice.random(REQUESTS) < 0.4
    prompt = np.where(code, dice.lognormal(8.1, 0.6, REQUESTS), dice.lognormal(7.1, 0.8, REQUESTS))
    answer = np.where(code, dice.lognormal(3.0, 0.9, REQUESTS), dice.lognormal(4.5, 0.8, REQUESTS))
    return at_s * 1e3, np.clip(prompt, 16, 12_000).astype(int), np.clip(answer, 1, 900).astype(int)


def replay(trace, prefill, decode):
    base = {
        "backend": "vllm",
        "num_gpu_blocks": DECODE_BLOCKS,
        "block_size": BLOCK,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "enable_prefix_caching": False,
        "kv_transfer_bytes_per_token": 131072,
        "kv_transfer_bandwidth": 25.0,
    }
    out = HERE / "report.jsonl"
    dynamo.run_mocker_trace_replay(
        [str(trace)],
        None,
        {"engine": {**base, "worker_type": "prefill", "num_gpu_blocks": PREFILL_BLOCKS}},
        {"engine": {**base, "worker_type": "decode"}},
        num_prefill_workers=prefill,
        num_decode_workers=decode,
        trace_block_size=BLOCK,
        report_jsonl_path=str(out),
        router_mode="round_robin",
    )
    rows = sorted(map(json.loads, out.read_text().splitlines()), key=lambda r: r["arrival_time_ms"])
    out.unlink()
    return rows


def column(rows, name):
    return np.array([np.nan if row.get(name) is None else row[name] for row in rows], float)


def score(rows):
    at = column(rows, "arrival_time_ms")
    ttft = (column(rows, "first_token_ms") - at) / 1e3
    gaps = column(rows, "output_length") - 1
    tpot = (
        (column(rows, "last_token_ms") - column(rows, "first_token_ms")) / 1e3 / np.maximum(gaps, 1)
    )
    good = (ttft <= PROMISE_S[0]) & ((tpot <= PROMISE_S[1]) | (gaps < 1))
    wait = (column(rows, "prefill_admit_ms") - at) / 1e3
    return {
        "ttft_p99_s": np.quantile(ttft, 0.99),
        "tpot_p99_s": np.quantile(tpot[gaps > 0], 0.99),
        "wait_p99_s": np.quantile(wait, 0.99),
        "goodput": good.mean(),
    }


def main():
    at_ms, prompts, answers = requests()
    trace = HERE / "trace.jsonl"
    used = 0
    with trace.open("w") as file:
        for at, prompt, answer in zip(at_ms, prompts, answers, strict=True):
            blocks = -(-int(prompt) // BLOCK)
            row = {
                "timestamp": float(at),
                "input_length": int(prompt),
                "output_length": int(answer),
            }
            file.write(json.dumps({**row, "hash_ids": list(range(used, used + blocks))}) + "\n")
            used += blocks
    rows = replay(trace, *OBSERVED)
    at = column(rows, "arrival_time_ms")
    told = {
        name: ((column(rows, field) - at) / 1e3).astype(np.float32)
        for name, field in FIELDS.items()
    }
    np.savez_compressed(
        HERE / "requests.npz",
        arrival=(at / 1e3).astype(np.float32),
        prompt=column(rows, "input_length").astype(np.int16),
        output=column(rows, "output_length").astype(np.int16),
        prefiller=column(rows, "prefill_worker_idx").astype(np.int8),
        decoder=column(rows, "decode_worker_idx").astype(np.int8),
        **told,
    )
    splits = {f"{p}:{d}": score(replay(trace, p, d)) for p, d in (OBSERVED, *OTHERS)}
    (HERE / "splits.json").write_text(json.dumps(splits, indent=1) + "\n")
    trace.unlink()
    sys.stdout.write(json.dumps(splits, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
