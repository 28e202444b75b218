from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class KimiK2Detector(BaseFormatDetector):
    """Detector for Kimi K2 models."""

    def __init__(self):
        super().__init__()
        self.bot_token = "<|tool_calls_section_begin|>"
        self.eot_token = "<|tool_calls_section_end|>"
