from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class Qwen3CoderDetector(BaseFormatDetector):
    """Detector for Qwen3 Coder models."""

    def __init__(self):
        super().__init__()
        self.bot_token = "<tool_call>"
        self.eot_token = "</tool_call>"
