import argparse
from dataclasses import dataclass
from typing import Optional

from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

QUANTIZATION_CHOICES = ["awq", "fp8", "gptq", "modelopt_fp4"]


class DeprecatedStoreTrueAction(argparse.Action):
    def __init__(self, option_strings, dest, new_flag=None, nargs=0, **kwargs):
        self.new_flag = new_flag
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        print(f"{option_string} is deprecated. Use {self.new_flag} instead.")
        setattr(namespace, self.dest, True)


@dataclass
class ServerArgs:
    model_path: str
    host: str = "127.0.0.1"
    port: int = 30000
    tp_size: int = 1
    dp_size: int = 1
    mem_fraction_static: Optional[float] = None
    context_length: Optional[int] = None
    quantization: Optional[str] = None
    kv_cache_dtype: str = "auto"
    page_size: Optional[int] = None
    attention_backend: Optional[str] = None
    tool_call_parser: Optional[str] = None
    reasoning_parser: Optional[str] = None
    chat_template: Optional[str] = None
    served_model_name: Optional[str] = None
    trust_remote_code: bool = False
    enable_metrics: bool = False
    disable_radix_cache: bool = False
    enable_hierarchical_cache: bool = False
    cuda_graph_max_bs_decode: Optional[int] = None
    cuda_graph_max_bs_prefill: Optional[int] = None
    incremental_streaming_output: bool = False
    disaggregation_mode: str = "null"
    disaggregation_transfer_backend: str = "mooncake"
    speculative_algorithm: Optional[str] = None
    speculative_num_steps: Optional[int] = None
    dsa_backend: Optional[str] = None

    def __post_init__(self):
        self._handle_parsers()
        self.check_server_args()

    def _handle_parsers(self):
        deprecated_tool_call_parsers = {"qwen25": "qwen", "glm45": "glm"}
        if self.tool_call_parser in deprecated_tool_call_parsers:
            self.tool_call_parser = deprecated_tool_call_parsers[self.tool_call_parser]

    def check_server_args(self):
        if self.enable_hierarchical_cache and self.disable_radix_cache:
            raise ValueError(
                "enable_hierarchical_cache needs the radix cache, which disable_radix_cache takes"
            )

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        tool_call_parser_choices = list(FunctionCallParser.ToolCallParserEnum.keys())
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--host", type=str, default=ServerArgs.host)
        parser.add_argument("--port", type=int, default=ServerArgs.port)
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, dest="tp_size")
        parser.add_argument("--data-parallel-size", "--dp-size", type=int, dest="dp_size")
        parser.add_argument("--mem-fraction-static", type=float)
        parser.add_argument("--context-length", type=int)
        parser.add_argument("--quantization", type=str, choices=QUANTIZATION_CHOICES)
        parser.add_argument(
            "--kv-cache-dtype",
            type=str,
            default=ServerArgs.kv_cache_dtype,
            choices=["auto", "fp8_e5m2", "fp8_e4m3", "bfloat16"],
        )
        parser.add_argument("--page-size", type=int, default=ServerArgs.page_size)
        parser.add_argument("--attention-backend", type=str)
        parser.add_argument("--tool-call-parser", type=str, choices=tool_call_parser_choices)
        parser.add_argument(
            "--reasoning-parser", type=str, choices=list(ReasoningParser.DetectorMap.keys())
        )
        parser.add_argument("--chat-template", type=str, default=ServerArgs.chat_template)
        parser.add_argument("--served-model-name", type=str)
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument("--enable-metrics", action="store_true")
        parser.add_argument("--disable-radix-cache", action="store_true")
        parser.add_argument("--enable-hierarchical-cache", action="store_true")
        parser.add_argument("--cuda-graph-max-bs-decode", type=int)
        parser.add_argument("--cuda-graph-max-bs-prefill", type=int)
        parser.add_argument("--incremental-streaming-output", action="store_true")
        parser.add_argument(
            "--stream-output",
            action=DeprecatedStoreTrueAction,
            new_flag="--incremental-streaming-output",
            dest="incremental_streaming_output",
        )
        parser.add_argument(
            "--disaggregation-mode",
            type=str,
            default=ServerArgs.disaggregation_mode,
            choices=["null", "prefill", "decode"],
        )
        parser.add_argument(
            "--disaggregation-transfer-backend",
            type=str,
            default=ServerArgs.disaggregation_transfer_backend,
            choices=["mooncake", "nixl"],
        )
        parser.add_argument("--speculative-algorithm", type=str, choices=["EAGLE", "NGRAM"])
        parser.add_argument("--speculative-num-steps", type=int)
        parser.add_argument("--dsa-backend", type=str)
        parser.add_argument("--config", type=str, help="Read settings from a YAML file.")
