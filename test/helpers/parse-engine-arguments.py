"""Feeds argument lists to an engine's own parser: `python parse-engine-arguments.py vllm|sglang < lists.json`.

Reads a JSON list of argument lists (what follows the program), writes {"version", "refusals": [null | why, ...]}.
Only the argument classes are imported: no GPU, no compiled kernels of the engine, no model is needed. Where a parser takes any
word and the engine ends later, the word is looked up in the engine's own list.
"""

import contextlib
import importlib.metadata
import io
import json
import sys
import typing


def literals(annotation):
    """Every string of a nested Literal or union."""
    if isinstance(annotation, str):
        return {annotation}
    return set().union(*map(literals, typing.get_args(annotation)))


def require(value, known, flag):
    if value is not None and value not in known:
        raise ValueError(f"{flag} has no {value}")


def vllm_parser():
    import vllm.platforms

    # The parser's defaults want to know what it would run on; it finds no GPU here.
    if not vllm.platforms.current_platform.device_type:
        vllm.platforms.current_platform.device_type = "cuda"
    from vllm.config import SpeculativeConfig
    from vllm.config.cache import CacheDType
    from vllm.config.speculative import SpeculativeMethod
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.common.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    serve = make_arg_parser(parser.add_subparsers(dest="subparser").add_parser("serve"))

    def check(arguments):
        validate_parsed_serve_args(arguments)
        engine = AsyncEngineArgs.from_cli_args(arguments)
        require(engine.kv_cache_dtype, literals(CacheDType), "--kv-cache-dtype")
        require(engine.quantization, QUANTIZATION_METHODS, "--quantization")
        require(arguments.tool_call_parser, ToolParserManager.list_registered(), "--tool-call-parser")
        require(engine.reasoning_parser or None, ReasoningParserManager.list_registered(), "--reasoning-parser")
        speculation = engine.speculative_config or {}
        for key in speculation:
            require(key, SpeculativeConfig.__dataclass_fields__, "--speculative-config")
        require(speculation.get("method"), literals(SpeculativeMethod), "--speculative-config's method")

    return parser, serve, check


def sglang_parser():
    import argparse

    from sglang.srt.server_args import ServerArgs
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)

    def check(arguments):
        SpeculativeAlgorithm.from_string(ServerArgs.from_cli_args(arguments).speculative_algorithm)

    return parser, parser, check


def refusal(parser, flags, check, words):
    # argparse would complete the beginning of a flag.
    for word in words:
        if word.startswith("--") and word.split("=")[0] not in flags:
            return f"no flag {word}"
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            check(parser.parse_args(words))
    except SystemExit:
        return complaint.getvalue().strip().splitlines()[-1]
    except Exception as error:
        return str(error)
    return None


def main():
    engine = sys.argv[1]
    lists = json.load(sys.stdin)
    # Imports and parsers print notes of their own.
    with contextlib.redirect_stdout(sys.stderr):
        parser, of_flags, check = vllm_parser() if engine == "vllm" else sglang_parser()
        flags = set(of_flags._option_string_actions)
        refusals = [refusal(parser, flags, check, words) for words in lists]
    print(json.dumps({"version": importlib.metadata.version(engine), "refusals": refusals}))


if __name__ == "__main__":
    main()
