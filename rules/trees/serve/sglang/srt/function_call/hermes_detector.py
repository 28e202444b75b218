from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class HermesDetector(BaseFormatDetector):
    """Detector for Hermes models."""

    def __init__(self):
        super().__init__()
        self.bot_token = "<tool_call>"
        self.eot_token = "</tool_call>"
