from sglang.srt.function_call.base_format_detector import BaseFormatDetector


class Glm4MoeDetector(BaseFormatDetector):
    """Detector for GLM-4.5 and GLM-4.6 models."""

    def __init__(self):
        super().__init__()
        self.bot_token = "<tool_call>"
        self.eot_token = "</tool_call>"
