"""Times attention over n tokens with the whole matrix of scores in memory, and in tiles (torch's scaled_dot_product_attention): a row per n.

    python attention.py [--heads 4] [--size 64] [--longest 32768] [--threads 2] [--json]

Each case runs in a separate process, which measures its peak memory. Needs torch.
"""
import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

REPEATS = 5


def measure(kind, n, heads, size, threads):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, n, size, dtype=torch.bfloat16) for _ in range(3))

    def whole():
        scores = q @ k.transpose(-1, -2) / size**0.5
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        return scores.masked_fill_(hidden, float("-inf")).softmax(-1) @ v

    def tiled():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    run = {"whole": whole, "tiled": tiled}[kind]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    with torch.inference_mode():
        for _ in range(1 + REPEATS):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # The first run allocates pages and starts threads.
    return {"ms": 1000 * statistics.median(times[1:]), "mib": peak / 1024}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--heads", type=int, default=4)
    args.add_argument("--size", type=int, default=64)
    args.add_argument("--longest", type=int, default=32768)
    args.add_argument("--threads", type=int, default=2)
    args.add_argument("--json", action="store_true")
    args.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    a = args.parse_args()
    if a.case:
        print(json.dumps(measure(a.case[0], int(a.case[1]), a.heads, a.size, a.threads)))
        return
    rows = []
    n = 512
    while n <= a.longest:
        row = {"n": n}
        for kind in ("whole", "tiled"):
            words = [sys.executable, __file__, "--case", kind, str(n)]
            words += ["--heads", str(a.heads), "--size", str(a.size), "--threads", str(a.threads)]
            ended = subprocess.run(words, capture_output=True, text=True)
            # The system kills a case that does not fit into memory; its row reports that.
            row[kind] = json.loads(ended.stdout) if ended.returncode == 0 else None
        rows.append(row)
        if not a.json:
            text = {kind: f"{row[kind]['ms']:.1f} ms, {row[kind]['mib']:.0f} MiB" if row[kind] else "no memory" for kind in ("whole", "tiled")}
            print(f"{n:6d} tokens: whole {text['whole']}; tiled {text['tiled']}", flush=True)
        n *= 2
    if a.json:
        print(json.dumps({"heads": a.heads, "size": a.size, "threads": a.threads, "dtype": "bfloat16", "rows": rows}))


if __name__ == "__main__":
    main()
