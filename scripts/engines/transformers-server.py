"""Serves a model with Hugging Face transformers' own generate(), one request at a time or in static batches: the baseline before any serving engine.

    python transformers-server.py FOLDER --port 8000 [--batch 16]

Answers /health, /v1/models, /tokenize and /v1/completions (text or token ids; whole or as a stream). Needs torch and transformers.
"""
import argparse
import json
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

# Time within which requests count as arriving together, in one batch.
GATHER_S = 0.02


class Job:
    def __init__(self, ids, max_tokens, ignore_eos):
        self.ids, self.max_tokens, self.ignore_eos = ids, max_tokens, ignore_eos
        self.tokens = queue.Queue()  # token ids, then the finish reason


class BatchStreamer:
    """Passes each row's new token on; generate() calls put() with the prompts first, then with one token for each row."""

    def __init__(self, jobs, eos):
        self.jobs, self.eos = jobs, eos
        self.counts = [0] * len(jobs)
        self.is_prompt = True

    def put(self, tokens):
        if self.is_prompt:
            self.is_prompt = False
            return
        for row, (job, token) in enumerate(zip(self.jobs, tokens.view(-1).tolist())):
            if self.counts[row] is None:
                continue
            if token in self.eos and not job.ignore_eos:
                self.finish(row, "stop")
                continue
            job.tokens.put(token)
            self.counts[row] += 1
            if self.counts[row] == job.max_tokens:
                self.finish(row, "length")

    def finish(self, row, reason):
        self.counts[row] = None
        self.jobs[row].tokens.put(reason)

    def end(self):
        for row, count in enumerate(self.counts):
            if count is not None:
                self.finish(row, "length")


class Batcher(threading.Thread):
    def __init__(self, model, eos, pad, size):
        super().__init__(daemon=True)
        self.model, self.eos, self.pad, self.size = model, eos, pad, size
        self.waiting = queue.Queue()

    def gather(self):
        jobs = [self.waiting.get()]
        deadline = time.monotonic() + GATHER_S
        while len(jobs) < self.size:
            try:
                jobs.append(self.waiting.get(timeout=max(0, deadline - time.monotonic())))
            except queue.Empty:
                break
        return jobs

    def run(self):
        while True:
            jobs = self.gather()
            try:
                self.generate(jobs)
            except Exception as error:  # one batch's failure must not end the server
                for job in jobs:
                    job.tokens.put(error)

    @torch.inference_mode()
    def generate(self, jobs):
        longest = max(len(job.ids) for job in jobs)
        # generate() continues at the right end, so shorter prompts are padded on the left.
        ids = torch.tensor([[self.pad] * (longest - len(job.ids)) + job.ids for job in jobs], device=self.model.device)
        mask = torch.tensor([[0] * (longest - len(job.ids)) + [1] * len(job.ids) for job in jobs], device=self.model.device)
        ignores = all(job.ignore_eos for job in jobs)
        steps = max(job.max_tokens for job in jobs)
        self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=steps,
            min_new_tokens=steps if ignores else None,
            do_sample=False,
            pad_token_id=self.pad,
            streamer=BatchStreamer(jobs, self.eos),
        )


def handler_of(name, context, tokenizer, batcher):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def answer(self, body, status=200):
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            if self.path == "/health":
                self.answer({"status": "ok"})
            elif self.path == "/v1/models":
                self.answer({"object": "list", "data": [{"id": name, "object": "model", "max_model_len": context}]})
            else:
                self.answer({"error": {"message": f"no {self.path} here"}}, 404)

        def do_POST(self):
            try:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
                if self.path == "/tokenize":
                    self.answer({"tokens": tokenizer.encode(str(body["prompt"]), add_special_tokens=False)})
                elif self.path == "/v1/completions":
                    self.complete(body)
                else:
                    self.answer({"error": {"message": f"no {self.path} here"}}, 404)
            except (KeyError, TypeError, ValueError) as error:
                self.answer({"error": {"message": f"expected a completion request, got {error!r}"}}, 400)

        def complete(self, body):
            prompt = body["prompt"]
            ids = tokenizer.encode(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
            job = Job(ids, int(body.get("max_tokens", 16)), bool(body.get("ignore_eos")))
            if not ids or len(ids) + job.max_tokens > context:
                raise ValueError(f"{len(ids)} + {job.max_tokens} tokens for a context of {context}")
            batcher.waiting.put(job)
            usage = {"prompt_tokens": len(ids)}
            is_stream = bool(body.get("stream"))
            if is_stream:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
            texts, count = [], 0
            while isinstance(token := job.tokens.get(), int):
                count += 1
                texts.append(tokenizer.decode([token]))
                if is_stream:
                    self.event({"choices": [{"index": 0, "text": texts[-1], "finish_reason": None}]})
            usage |= {"completion_tokens": count, "total_tokens": len(ids) + count}
            if isinstance(token, Exception):
                if is_stream:
                    self.event({"error": {"message": repr(token)}})
                else:
                    self.answer({"error": {"message": repr(token)}}, 500)
                return
            last = [{"index": 0, "text": "" if is_stream else "".join(texts), "finish_reason": token}]
            if not is_stream:
                self.answer({"object": "text_completion", "model": name, "choices": last, "usage": usage})
                return
            self.event({"choices": last})
            self.event({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def event(self, body):
            self.wfile.write(b"data: " + json.dumps({"object": "text_completion", "model": name, **body}).encode() + b"\n\n")
            self.wfile.flush()

    return Handler


def main():
    args = argparse.ArgumentParser()
    args.add_argument("folder")
    args.add_argument("--host", default="127.0.0.1")
    args.add_argument("--port", type=int, required=True)
    args.add_argument("--batch", type=int, default=1)
    args.add_argument("--threads", type=int)
    args.add_argument("--dtype", default="auto")
    a = args.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    tokenizer = AutoTokenizer.from_pretrained(a.folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(a.folder, dtype=a.dtype).to(device).eval()
    eos = model.generation_config.eos_token_id
    eos = set(eos if isinstance(eos, list) else [] if eos is None else [eos])
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    batcher = Batcher(model, eos, pad, a.batch)
    batcher.start()
    context = model.config.max_position_embeddings
    ThreadingHTTPServer((a.host, a.port), handler_of("model", context, tokenizer, batcher)).serve_forever()


if __name__ == "__main__":
    main()
