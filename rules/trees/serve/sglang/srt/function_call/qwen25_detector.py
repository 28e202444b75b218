from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class Qwen25Detector(BaseFormatDetector):
    """Detector for Qwen 2.5 and Qwen 3 models."""

    def __init__(self):
        super().__init__()
        self.bot_token = "<tool_call>\n"
        self.eot_token = "\n</tool_call>"
