from sglang.srt.function_call.deepseekv32_detector import DeepSeekV32Detector


class DeepSeekV4Detector(DeepSeekV32Detector):
    """Detector for DeepSeek V4 models."""

    block_name = "tool_calls"
