"""Serves a model with sentence-transformers' own encode(), one call per request: the baseline for servers of embeddings.

    python sentence-transformers-server.py FOLDER --port 8000 [--threads 2] [--dtype bfloat16]
    python sentence-transformers-server.py FOLDER --texts 1024 --tokens 256 [--threads 2]

Answers /health, /v1/models and /v1/embeddings. With --texts it prints the texts per second of one long list of
texts instead, without HTTP. Needs torch and sentence-transformers.
"""
import argparse
import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from sentence_transformers import SentenceTransformer

WORDS = "time people way water day man part place case week company system program question work night point home story fact".split()


def load(folder, dtype):
    model = SentenceTransformer(folder, device="cpu")
    return model.to(getattr(torch, dtype)).eval()


def handler_of(model, name):
    # One call at a time, because a call uses all of torch's threads.
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Sends headers and body at once, without waiting for the client's delayed acknowledgement.
        wbufsize = -1
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def answer(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            if self.path == "/health":
                self.answer(200, {})
            elif self.path == "/v1/models":
                self.answer(200, {"object": "list", "data": [{"id": name, "max_model_len": model.max_seq_length}]})
            else:
                self.answer(404, {"error": {"message": f"no {self.path} here"}})

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path != "/v1/embeddings":
                return self.answer(404, {"error": {"message": f"no {self.path} here"}})
            texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
            with turn:
                vectors = model.encode(texts, normalize_embeddings=True)
            # Counts tokens in Rust, without a second pass through the model.
            tokens = sum(len(each.ids) for each in model.tokenizer.backend_tokenizer.encode_batch_fast(texts))
            data = [{"object": "embedding", "index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]
            usage = {"prompt_tokens": tokens, "total_tokens": tokens}
            self.answer(200, {"object": "list", "model": name, "data": data, "usage": usage})

    return Handler


def measure(model, num_texts, num_tokens, rounds):
    rng = random.Random(0)
    texts = [" ".join(rng.choice(WORDS) for _ in range(num_tokens - 2)) for _ in range(num_texts)]
    model.encode(texts[:64])
    for _ in range(rounds):
        start = time.perf_counter()
        model.encode(texts)
        seconds = time.perf_counter() - start
        print(json.dumps({"texts": num_texts, "tokens": num_tokens, "texts_per_s": num_texts / seconds}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--texts", type=int, help="texts of a list to encode in this process")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of each of these texts")
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    model = load(flags.folder, flags.dtype)
    if flags.texts is not None:
        return measure(model, flags.texts, flags.tokens, flags.rounds)
    name = flags.folder.rstrip("/").split("/")[-1]
    server = ThreadingHTTPServer(("127.0.0.1", flags.port), handler_of(model, name))
    print(f"http://127.0.0.1:{flags.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
