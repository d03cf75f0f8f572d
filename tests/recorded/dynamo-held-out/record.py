"""Three fleets that nobody tuned on, each under two loads, through NVIDIA Dynamo's offline mocker.

Needs an interpreter with ai-dynamo-runtime 1.6.1 and numpy; writes NAME.npz and NAME.json each.
"""

import json
import pathlib
import sys

import dynamo._core as dynamo
import numpy as np

HERE = pathlib.Path(__file__).parent
BLOCK, SEED, TICK_S = 64, 777, 1e-5
FIELDS = {
    "start": "prefill_admit_ms",
    "prefilled": "source_held_ms",
    "joined": "decode_admit_ms",
    "first": "first_token_ms",
    "last": "last_token_ms",
}


def chat(dice, n):
    prompt, answer = dice.lognormal(6.3, 0.9, n), dice.lognormal(5.2, 0.7, n)
    return np.clip(prompt, 16, 8000).astype(int), np.clip(answer, 1, 1200).astype(int)


def rag(dice, n):
    prompt, answer = dice.lognormal(8.3, 0.4, n), dice.lognormal(4.8, 0.5, n)
    return np.clip(prompt, 256, 12000).astype(int), np.clip(answer, 8, 600).astype(int)


def agent(dice, n):
    long = dice.random(n) < 0.25
    prompts = (
        np.clip(dice.lognormal(9.0, 0.35, n), 2000, 14000),
        np.clip(dice.lognormal(6.8, 0.6, n), 64, 6000),
    )
    answers = (
        np.clip(dice.lognormal(3.6, 0.8, n), 1, 300),
        np.clip(dice.lognormal(4.9, 0.9, n), 1, 900),
    )
    return np.where(long, *prompts).astype(int), np.where(long, *answers).astype(int)


FLEETS = {
    "agent": {
        "asked": agent, "requests": 10_000, "per_s": (14, 17), "bursts": 0.5, "observed": (4, 3),
        "others": ((3, 3), (5, 3), (4, 2), (4, 4), (5, 2), (3, 4), (6, 1)),
        "blocks": (640, 2560), "budget": 8192, "slots": 256, "gbit": 12.0, "promise_s": (1.0, 0.03),
    },
    "chat": {
        "asked": chat, "requests": 12_000, "per_s": (34, 41), "bursts": 0.3, "observed": (2, 4),
        "others": ((1, 4), (3, 4), (2, 3), (2, 5), (3, 3), (3, 5), (2, 2)),
        "blocks": (512, 2048), "budget": 8192, "slots": 256, "gbit": 25.0, "promise_s": (0.4, 0.03),
    },
    "rag": {
        "asked": rag, "requests": 10_000, "per_s": (15, 18), "bursts": 0.35, "observed": (5, 3),
        "others": ((4, 3), (6, 3), (5, 2), (5, 4), (4, 4), (6, 2), (5, 1)),
        "blocks": (768, 3072), "budget": 4096, "slots": 128, "gbit": 50.0, "promise_s": (1.0, 0.033),
    },
}  # fmt: skip


def replayed(trace, prefill, decode, fleet):
    base = {
        "backend": "vllm",
        "block_size": BLOCK,
        "max_num_seqs": fleet["slots"],
        "max_num_batched_tokens": fleet["budget"],
        "enable_prefix_caching": False,
        "kv_transfer_bytes_per_token": 131072,
        "kv_transfer_bandwidth": fleet["gbit"],
    }
    kinds = zip(("prefill", "decode"), fleet["blocks"], strict=True)
    engines = [{"engine": {**base, "worker_type": k, "num_gpu_blocks": n}} for k, n in kinds]
    out = HERE / "report.jsonl"
    dynamo.run_mocker_trace_replay(
        [str(trace)],
        None,
        *engines,
        num_prefill_workers=prefill,
        num_decode_workers=decode,
        trace_block_size=BLOCK,
        report_jsonl_path=str(out),
        router_mode="round_robin",
    )
    rows = sorted(map(json.loads, out.read_text().splitlines()), key=lambda r: r["arrival_time_ms"])
    out.unlink()
    at = column(rows, "arrival_time_ms")
    return {
        "arrival": at / 1e3,
        "prompt": column(rows, "input_length"),
        "output": column(rows, "output_length"),
        "prefiller": np.nan_to_num(column(rows, "prefill_worker_idx"), nan=-1),
        "decoder": np.nan_to_num(column(rows, "decode_worker_idx"), nan=-1),
        **{name: (column(rows, field) - at) / 1e3 for name, field in FIELDS.items()},
    }


def column(rows, name):
    return np.array([np.nan if row.get(name) is None else row[name] for row in rows], float)


def trace_of(fleet, load, dice):
    """Bursts of ten seconds; the second load is faster, with other requests."""
    count = fleet["requests"]
    tens = int(count / fleet["per_s"][load] // 10)
    rate = np.repeat(np.exp(dice.normal(0, fleet["bursts"], tens)), 10)
    at_s = np.sort(dice.choice(len(rate), count, p=rate / rate.sum()) + dice.random(count))
    path, used = HERE / "trace.jsonl", 0
    with path.open("w") as file:
        for at, prompt, answer in zip(at_s, *fleet["asked"](dice, count), strict=True):
            blocks = -(-int(prompt) // BLOCK)
            row = {"timestamp": at * 1e3, "input_length": int(prompt), "output_length": int(answer)}
            file.write(json.dumps({**row, "hash_ids": list(range(used, used + blocks))}) + "\n")
            used += blocks
    return path


def score(told, promise_s):
    gaps = told["output"] - 1
    tpot = (told["last"] - told["first"]) / np.where(gaps > 0, gaps, np.nan)
    good = (told["first"] <= promise_s[0]) & ~(tpot > promise_s[1])
    return {
        "ttft_p99_s": round(float(np.nanquantile(told["first"], 0.99)), 5),
        "tpot_p99_s": round(float(np.nanquantile(tpot, 0.99)), 6),
        "wait_p99_s": round(float(np.nanquantile(told["start"], 0.99)), 4),
        "goodput": round(float(good.mean()), 5),
    }


def ticks(told):
    """Whole ticks of 10 µs, each stage since the one before it: they pack well."""
    found = {"arrival": np.diff(np.round(told["arrival"] / TICK_S), prepend=0).astype(np.int32)}
    before = 0.0
    for name in FIELDS:
        now = np.round(told[name] / TICK_S)
        found[name] = (now - before).astype(np.int32)
        before = now
    return found


def main():
    for place, (name, fleet) in enumerate(FLEETS.items()):
        splits, kept = {}, {}
        for load, word in enumerate(("same", "other")):
            trace = trace_of(fleet, load, np.random.default_rng([SEED, load, place]))
            for prefill, decode in (fleet["observed"], *fleet["others"]):
                told = replayed(trace, prefill, decode, fleet)
                splits[f"{word} {prefill}:{decode}"] = score(told, fleet["promise_s"])
                if (prefill, decode) != fleet["observed"]:
                    continue
                asked = {key: told[key].astype(np.int16) for key in ("prompt", "output")}
                if load == 0:
                    who = {key: told[key].astype(np.int8) for key in ("prefiller", "decoder")}
                    kept |= {**ticks(told), **asked, **who}
                else:
                    kept["other_arrival"] = ticks(told)["arrival"]
                    kept |= {f"other_{key}": value for key, value in asked.items()}
            trace.unlink()
        np.savez_compressed(HERE / f"{name}.npz", **kept)
        about = {
            "observed": fleet["observed"],
            "promise_s": fleet["promise_s"],
            "prefill_kv_tokens": fleet["blocks"][0] * BLOCK,
            "decode_kv_tokens": fleet["blocks"][1] * BLOCK,
            "budget_tokens": fleet["budget"],
            "slots": fleet["slots"],
            "splits": splits,
        }
        (HERE / f"{name}.json").write_text(json.dumps(about, indent=1))


if __name__ == "__main__":
    sys.exit(main())
