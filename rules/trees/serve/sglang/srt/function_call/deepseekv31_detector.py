from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class DeepSeekV31Detector(BaseFormatDetector):
    """Detector for DeepSeek V3.1 models."""

    def __init__(self):
        super().__init__()
        self.bot_token = "<｜tool▁calls▁begin｜>"
        self.eot_token = "<｜tool▁calls▁end｜>"
