from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class Llama32Detector(BaseFormatDetector):
    """Detector for Llama 3 models."""

    def __init__(self):
        super().__init__()
        self.bot_token = "<|python_tag|>"
        self.eot_token = ""
